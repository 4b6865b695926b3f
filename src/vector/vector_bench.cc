// Memory-bound operators of the vector engine, in GB/s of what must be read and written, and as a share of a
// streaming copy of as many bytes measured in the same run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "vector/canonical_programs.h"
#include "vector/compiled.h"
#include "vector/run.h"
#include "vector/streaming.h"

namespace opsnn::vector {
namespace {

constexpr int64_t kRows = 65536, kCols = 768;  // 201 MB a tensor: beyond any cache

float* Tensor(int which) {
  static AlignedBuffer buffers[3];
  AlignedBuffer& b = buffers[which];
  if (!b) {
    b = AlignedBuffer(kRows * kCols * sizeof(float));
    for (int64_t i = 0; i < kRows * kCols; ++i)
      b.as<float>()[i] = static_cast<float>((i * 37 % 1000) - 500) / 250;
  }
  return b.as<float>();
}
TensorView View(int which, int64_t rows, int64_t cols) {
  return TensorView::Contiguous(Tensor(which), DType::kF32, {rows, cols});
}

double Seconds(const std::function<void()>& f) {
  const auto t0 = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
}

// Runs op and a copy of the same size in turns; reports the medians' ratio.
void InTurns(benchmark::State& state, int64_t rows, int64_t cols, int tensors,
             const std::function<void()>& op) {
  SetNumThreads(1);
  const TensorView from = View(0, rows, cols), to = View(1, rows, cols);
  std::vector<double> ours, copy;
  for (auto _ : state) {
    const int64_t repeat = std::max<int64_t>(1, (1 << 20) / (rows * cols));
    copy.push_back(Seconds([&] {
                     for (int64_t i = 0; i < repeat; ++i) CopyConvert(from, to);
                   }) /
                   repeat);
    const double s = Seconds([&] {
                       for (int64_t i = 0; i < repeat; ++i) op();
                     }) /
                     repeat;
    ours.push_back(s);
    state.SetIterationTime(s);
  }
  std::sort(ours.begin(), ours.end()), std::sort(copy.begin(), copy.end());
  const double bytes = static_cast<double>(rows * cols) * sizeof(float);
  const double gbs = bytes * tensors / ours[ours.size() / 2] / 1e9,
               copy_gbs = bytes * 2 / copy[copy.size() / 2] / 1e9;
  state.counters["GB/s"] = gbs;
  state.counters["copy GB/s"] = copy_gbs;
  state.counters["share %"] = 100 * gbs / copy_gbs;
  state.counters["best share %"] = 100 * (bytes * tensors / ours[0]) / (bytes * 2 / copy[0]);
}

void RunProgram(benchmark::State& state, const Program& program, int64_t rows, int64_t cols, int tensors,
                std::vector<TensorView> inputs, bool row) {
  const auto compiled = Compile(program).value();
  const TensorView out = View(1, rows, cols);
  InTurns(state, rows, cols, tensors,
          [&] { RunTensors(*compiled, inputs, std::span(&out, 1), row ? 1 : 0); });
}

void BM_LayerNorm(benchmark::State& state) {
  static std::vector<float> gamma(1 << 16, 0.5f), beta(1 << 16, 0.25f);
  NormOptions o;
  o.gamma = o.beta = true;
  const int64_t rows = state.range(0), cols = state.range(1);
  RunProgram(state, LayerNormProgram(o), rows, cols, 2,
             {View(0, rows, cols), TensorView::Contiguous(gamma.data(), DType::kF32, {cols}),
              TensorView::Contiguous(beta.data(), DType::kF32, {cols})},
             true);
}
// The same by the interpreter.
void BM_LayerNormInterpreted(benchmark::State& state) {
  static std::vector<float> gamma(1 << 16, 0.5f), beta(1 << 16, 0.25f);
  NormOptions o;
  o.gamma = o.beta = true;
  const int64_t rows = state.range(0), cols = state.range(1);
  const auto compiled = Compile(LayerNormProgram(o)).value();
  const BlockArg args[] = {{Tensor(0), DType::kF32, cols, 1},
                           {gamma.data(), DType::kF32, 0, 1},
                           {beta.data(), DType::kF32, 0, 1},
                           {Tensor(1), DType::kF32, cols, 1}};
  ExecuteOptions options{rows * cols * 4 >= StreamingThreshold(), false};
  InTurns(state, rows, cols, 2, [&] { Execute(*compiled, rows, cols, args, options); });
}
void BM_Softmax(benchmark::State& state) {
  const int64_t rows = state.range(0), cols = state.range(1);
  RunProgram(state, SoftmaxProgram(), rows, cols, 2, {View(0, rows, cols)}, true);
}
void BM_Gelu(benchmark::State& state) {
  const int64_t rows = state.range(0), cols = state.range(1);
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kGeluErf, b.Input()));
  RunProgram(state, std::move(b).Build(), rows, cols, 2, {View(0, rows, cols)}, false);
}
void BM_Relu(benchmark::State& state) {
  const int64_t rows = state.range(0), cols = state.range(1);
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kRelu, b.Input()));
  RunProgram(state, std::move(b).Build(), rows, cols, 2, {View(0, rows, cols)}, false);
}
void BM_Add(benchmark::State& state) {
  const int64_t rows = state.range(0), cols = state.range(1);
  ProgramBuilder b;
  const SlotId x = b.Input(), y = b.Input();
  b.Output(b.Binary(StageOp::kAdd, x, y));
  RunProgram(state, std::move(b).Build(), rows, cols, 3, {View(0, rows, cols), View(2, rows, cols)}, false);
}
// relu((x * 0.5 + bias) * sigmoid(x) - 0.1): four stages and more that do not merge into one.
void BM_Chain(benchmark::State& state) {
  static std::vector<float> bias(1 << 16, 0.25f);
  const int64_t rows = state.range(0), cols = state.range(1);
  ProgramBuilder b;
  const SlotId x = b.Input(), c = b.Input();
  const SlotId left = b.Binary(StageOp::kAdd, b.Unary(StageOp::kTanh, x), c);
  const SlotId gated = b.Binary(StageOp::kMul, left, b.Unary(StageOp::kSigmoid, x));
  b.Output(b.Unary(StageOp::kRelu, b.Unary(StageOp::kAffine, gated, 1.5, -0.1)));
  RunProgram(state, std::move(b).Build(), rows, cols, 2,
             {View(0, rows, cols), TensorView::Contiguous(bias.data(), DType::kF32, {cols})}, false);
}

#define OPSNN_VECTOR_BENCH(F) \
  BENCHMARK(F)->UseManualTime()->Args({kRows, kCols})->Args({256, 768})->Args({16, 768})->MinTime(0.3)
OPSNN_VECTOR_BENCH(BM_LayerNorm);
OPSNN_VECTOR_BENCH(BM_LayerNormInterpreted);
OPSNN_VECTOR_BENCH(BM_Softmax);
OPSNN_VECTOR_BENCH(BM_Gelu);
OPSNN_VECTOR_BENCH(BM_Relu);
OPSNN_VECTOR_BENCH(BM_Add);
OPSNN_VECTOR_BENCH(BM_Chain);

// The cost of a call on almost nothing.
void BM_Tiny(benchmark::State& state) {
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kRelu, b.Input()));
  const auto compiled = Compile(std::move(b).Build()).value();
  const TensorView in = TensorView::Contiguous(Tensor(0), DType::kF32, {64});
  const TensorView out = TensorView::Contiguous(Tensor(1), DType::kF32, {64});
  for (auto _ : state) RunTensors(*compiled, std::span(&in, 1), std::span(&out, 1));
}
BENCHMARK(BM_Tiny);

}  // namespace
}  // namespace opsnn::vector
