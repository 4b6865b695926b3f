// Data movement as a share of a streaming copy of the same bytes, measured in turns in one run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "kernels/transpose/layout_convert.h"
#include "kernels/transpose/strided_copy.h"
#include "vector/run.h"

namespace opsnn::kernels {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(FunctionRef<void()> fn) {
  const auto start = Clock::now();
  fn();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Runs `fn` and a copy of `bytes` in turns; counters: GB/s read + written, and copy time / fn time. The copy
// is the better of memcpy and the vector engine's, which writes large results around the caches.
void RunAgainstCopy(benchmark::State& state, size_t bytes, FunctionRef<void(const void*, void*)> fn) {
  SetNumThreads(1);
  AlignedBuffer src(bytes), dst(bytes);
  std::memset(src.data(), 1, bytes);
  std::memset(dst.data(), 2, bytes);
  const Dims flat = {static_cast<int64_t>(bytes / sizeof(float))};
  const TensorView from = TensorView::Contiguous(src.data(), DType::kF32, flat);
  const TensorView to = TensorView::Contiguous(dst.data(), DType::kF32, flat);
  std::vector<double> ours, copy;
  for (auto _ : state) {
    const double plain = Seconds([&] { std::memcpy(dst.data(), src.data(), bytes); });
    copy.push_back(std::min(plain, Seconds([&] { vector::CopyConvert(from, to); })));
    ours.push_back(Seconds([&] { fn(src.data(), dst.data()); }));
    state.SetIterationTime(ours.back());
  }
  SetNumThreads(0);
  std::nth_element(ours.begin(), ours.begin() + ours.size() / 2, ours.end());
  std::nth_element(copy.begin(), copy.begin() + copy.size() / 2, copy.end());
  const double t = ours[ours.size() / 2], c = copy[copy.size() / 2];
  state.counters["GB/s"] = 2e-9 * static_cast<double>(bytes) / t;
  state.counters["copy_GB/s"] = 2e-9 * static_cast<double>(bytes) / c;
  state.counters["of_copy"] = c / t;
}

void BM_Transpose(benchmark::State& state, int elem_bytes, Dims dims, Dims perm) {
  const CopyPlan plan = TransposePlan(elem_bytes, dims, perm);
  state.SetLabel(plan.variant());
  RunAgainstCopy(state, NumElements(dims) * elem_bytes, [&](const void* s, void* d) { plan.Run(s, d); });
}

void BM_Layout(benchmark::State& state, DType dtype, Dims dims, Layout from, Layout to) {
  const int64_t elements = std::max(StoredElements(dims, from), StoredElements(dims, to));
  RunAgainstCopy(state, elements * SizeOf(dtype), [&](const void* s, void* d) {
    ConvertLayout({s, dtype, from, d, dtype, to, dims});
  });
}

void Register() {
  const auto transpose = [](const std::string& name, int elem_bytes, Dims dims, Dims perm) {
    benchmark::RegisterBenchmark(("Transpose/" + name).c_str(), BM_Transpose, elem_bytes, dims, perm)
        ->UseManualTime()
        ->MinTime(0.2);
  };
  transpose("f32/4096x4096", 4, {4096, 4096}, {1, 0});
  transpose("f32/4000x4100", 4, {4000, 4100}, {1, 0});
  transpose("f16/4096x4096", 2, {4096, 4096}, {1, 0});
  transpose("u8/4096x4096", 1, {4096, 4096}, {1, 0});
  transpose("f64/2048x2048", 8, {2048, 2048}, {1, 0});
  transpose("f32/512x512", 4, {512, 512}, {1, 0});
  transpose("f32/1024x1024", 4, {1024, 1024}, {1, 0});
  transpose("f32/1000x1000", 4, {1000, 1000}, {1, 0});
  transpose("f16/1024x2048", 2, {1024, 2048}, {1, 0});
  transpose("u8/2048x2048", 1, {2048, 2048}, {1, 0});
  transpose("u8/2000x2000", 1, {2000, 2000}, {1, 0});
  transpose("f32/nchw_to_nhwc_28", 4, {4, 256, 28, 28}, {0, 2, 3, 1});
  transpose("f32/nhwc_to_nchw_28", 4, {4, 28, 28, 256}, {0, 3, 1, 2});
  transpose("f32/nchw_to_nhwc_64", 4, {8, 64, 112, 112}, {0, 2, 3, 1});
  transpose("f32/nhwc_to_nchw_64", 4, {8, 112, 112, 64}, {0, 3, 1, 2});
  transpose("f32/nhwc_to_nchw_3", 4, {8, 224, 224, 3}, {0, 3, 1, 2});
  transpose("f32/nchw_to_nhwc_3", 4, {8, 3, 224, 224}, {0, 2, 3, 1});
  transpose("u8/nhwc_to_nchw_3", 1, {8, 224, 224, 3}, {0, 3, 1, 2});
  transpose("f32/attention_40x8x15", 4, {1, 40, 3, 8, 15}, {2, 0, 3, 1, 4});
  transpose("f32/heads_512x12x64", 4, {8, 512, 12, 64}, {0, 2, 1, 3});
  const auto layout = [](const std::string& name, DType dtype, Dims dims, Layout from, Layout to) {
    benchmark::RegisterBenchmark(("Layout/" + name).c_str(), BM_Layout, dtype, dims, from, to)
        ->UseManualTime()
        ->MinTime(0.2);
  };
  const Layout nchw = {Format::kNCHW, 0}, nhwc = {Format::kNHWC, 0}, blocked = {Format::kNC1HWC0, 16};
  for (const Dims& dims : {Dims{8, 64, 112, 112}, Dims{1, 64, 56, 56}, Dims{1, 96, 40, 40}}) {
    const std::string size = ToString(dims);
    layout("f32/nchw_to_blocked/" + size, DType::kF32, dims, nchw, blocked);
    layout("f32/blocked_to_nchw/" + size, DType::kF32, dims, blocked, nchw);
    layout("f32/nhwc_to_blocked/" + size, DType::kF32, dims, nhwc, blocked);
  }
}

const bool registered = (Register(), true);

}  // namespace
}  // namespace opsnn::kernels
