// opsnn and oneDNN on operators that memory or the vector units bound, in one process and in turns. The time
// of a copy of the same bytes stands beside them.
//
//   vector_peers [THREADS] [SECONDS] [FILTER]   THREADS: 1, 2, ... or 0 for 1 and all; SECONDS per case
//   (default 0.6); FILTER: part of a case's name
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/peers/turns.h"
#include "opsnn/operator_model.h"
#include "opsnn/system.h"

namespace {

using dnnl::memory;
using opsnn::peers::Median;
using opsnn::peers::Now;
using Dims = std::vector<int64_t>;

struct Case {
  std::string name;
  opsnn::OpSpec ours;
  Dims x, y;
  opsnn::DType dtype = opsnn::DType::kF32;
  // Makes the primitive and its arguments for memory at x and y.
  std::function<dnnl::primitive(const dnnl::engine&, void* x, void* y, std::unordered_map<int, memory>*)>
      theirs;
};

memory::data_type TypeOf(opsnn::DType t) {
  return t == opsnn::DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}
memory::desc Plain(const Dims& d, opsnn::DType t) {
  using Tag = memory::format_tag;
  static constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd};
  return memory::desc(d, TypeOf(t), kTags[d.size()]);
}

Case Eltwise(const char* name, const char* op, dnnl::algorithm algorithm, int64_t n) {
  Case c{name, {op, {{"x", {n}}}, opsnn::DType::kF32, {}}, {n}, {n}, opsnn::DType::kF32, nullptr};
  c.theirs = [=](const dnnl::engine& e, void* x, void* y, std::unordered_map<int, memory>* args) {
    const memory::desc d = Plain({n}, opsnn::DType::kF32);
    *args = {{DNNL_ARG_SRC, memory(d, e, x)}, {DNNL_ARG_DST, memory(d, e, y)}};
    return dnnl::eltwise_forward(dnnl::eltwise_forward::primitive_desc(e, dnnl::prop_kind::forward_inference,
                                                                       algorithm, d, d, 0.f, 0.f));
  };
  return c;
}

Case Softmax(const char* name, int64_t rows, int64_t cols, opsnn::DType t) {
  Case c{name, {"softmax", {{"x", {rows, cols}}}, t, {}}, {rows, cols}, {rows, cols}, t, nullptr};
  c.theirs = [=](const dnnl::engine& e, void* x, void* y, std::unordered_map<int, memory>* args) {
    const memory::desc d = Plain({rows, cols}, t);
    *args = {{DNNL_ARG_SRC, memory(d, e, x)}, {DNNL_ARG_DST, memory(d, e, y)}};
    return dnnl::softmax_forward(dnnl::softmax_forward::primitive_desc(
        e, dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate, d, d, 1));
  };
  return c;
}

Case LayerNorm(const char* name, int64_t rows, int64_t cols, opsnn::DType t) {
  Case c{name, {"layernorm", {{"x", {rows, cols}}}, t, {}}, {rows, cols}, {rows, cols}, t, nullptr};
  c.theirs = [=](const dnnl::engine& e, void* x, void* y, std::unordered_map<int, memory>* args) {
    const memory::desc d = Plain({rows, cols}, t);
    static std::vector<float> ones;
    ones.assign(static_cast<size_t>(cols), 1.0f);
    const memory::desc p = Plain({cols}, opsnn::DType::kF32);
    *args = {{DNNL_ARG_SRC, memory(d, e, x)},
             {DNNL_ARG_DST, memory(d, e, y)},
             {DNNL_ARG_SCALE, memory(p, e, ones.data())},
             {DNNL_ARG_SHIFT, memory(p, e, ones.data())}};
    return dnnl::layer_normalization_forward(dnnl::layer_normalization_forward::primitive_desc(
        e, dnnl::prop_kind::forward_inference, d, d, 1e-5f,
        dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift));
  };
  return c;
}

Case MaxPool(const char* name, int64_t n, int64_t ch, int64_t s) {
  const int64_t out = (s + 2 - 3) / 2 + 1;
  Case c{name,
         {"maxpool",
          {{"x", {n, ch, s, s}}, {"kernel", {3, 3}}, {"stride", {2, 2}}, {"pad", {1, 1, 1, 1}}},
          opsnn::DType::kF32,
          {}},
         {n, ch, s, s},
         {n, ch, out, out},
         opsnn::DType::kF32,
         nullptr};
  c.theirs = [=](const dnnl::engine& e, void* x, void* y, std::unordered_map<int, memory>* args) {
    const memory::desc d = Plain({n, ch, s, s}, opsnn::DType::kF32),
                       o = Plain({n, ch, out, out}, opsnn::DType::kF32);
    *args = {{DNNL_ARG_SRC, memory(d, e, x)}, {DNNL_ARG_DST, memory(o, e, y)}};
    return dnnl::pooling_forward(dnnl::pooling_forward::primitive_desc(
        e, dnnl::prop_kind::forward_inference, dnnl::algorithm::pooling_max, d, o, {2, 2}, {3, 3}, {0, 0},
        {1, 1}, {1, 1}));
  };
  return c;
}

Case Transpose(const char* name, const Dims& x, const Dims& perm) {
  Dims y;
  for (const int64_t p : perm) y.push_back(x[static_cast<size_t>(p)]);
  Case c{name,   {"transpose", {{"x", x}, {"perm", perm}}, opsnn::DType::kF32, {}}, x, y, opsnn::DType::kF32,
         nullptr};
  c.theirs = [=](const dnnl::engine& e, void* from, void* to, std::unordered_map<int, memory>* args) {
    // The same logical tensor with its dims in x's order, stored in y's.
    const memory::desc d = Plain(x, opsnn::DType::kF32);
    Dims strides(x.size());
    int64_t step = 1;
    for (size_t i = perm.size(); i-- > 0;) {
      strides[static_cast<size_t>(perm[i])] = step;
      step *= x[static_cast<size_t>(perm[i])];
    }
    const memory::desc o(x, memory::data_type::f32, strides);
    *args = {{DNNL_ARG_FROM, memory(d, e, from)}, {DNNL_ARG_TO, memory(o, e, to)}};
    return dnnl::reorder(dnnl::reorder::primitive_desc(e, d, e, o));
  };
  return c;
}

std::vector<Case> Cases() {
  constexpr auto kF32 = opsnn::DType::kF32, kBF16 = opsnn::DType::kBF16;
  return {Eltwise("gelu_erf 16M f32", "gelu", dnnl::algorithm::eltwise_gelu_erf, 1 << 24),
          Eltwise("gelu_tanh 16M f32", "gelu_tanh", dnnl::algorithm::eltwise_gelu_tanh, 1 << 24),
          Softmax("softmax 64x32000 f32", 64, 32000, kF32),
          Softmax("softmax 64x32000 bf16", 64, 32000, kBF16),
          LayerNorm("layernorm 65536x768 f32", 65536, 768, kF32),
          LayerNorm("layernorm 65536x768 bf16", 65536, 768, kBF16),
          MaxPool("max pool 3x3 s2 NCHW 16x64x112", 16, 64, 112),
          Transpose("transpose 4096x4096", {4096, 4096}, {1, 0}),
          Transpose("NCHW to NHWC 16x256x56x56", {16, 256, 56, 56}, {0, 2, 3, 1}),
          Transpose("NHWC to NCHW 16x56x56x256", {16, 56, 56, 256}, {0, 3, 1, 2})};
}

// A layer norm of ours with weights of its own is no yardstick for the values of theirs.
bool Comparable(const Case& c) { return c.ours.op != "layernorm"; }

int Measure(const Case& c, int threads, double seconds) {
  auto model = opsnn::MakeOperatorModel(c.ours, {});
  if (!model.ok())
    return std::fprintf(stderr, "%s: %s\n", c.name.c_str(), model.status().message().c_str()), 1;
  auto feeds = model->RandomFeeds({}, 1);
  if (!feeds.ok()) return std::fprintf(stderr, "%s\n", feeds.status().message().c_str()), 1;
  opsnn::Tensor x = feeds->begin()->second;
  if (x.dims() != c.x) return std::fprintf(stderr, "%s: the model has other dims\n", c.name.c_str()), 1;
  auto first = model->Run(*feeds);
  if (!first.ok())
    return std::fprintf(stderr, "%s: %s\n", c.name.c_str(), first.status().message().c_str()), 1;
  std::vector<opsnn::Tensor> outputs = *first;
  auto theirs = opsnn::Tensor::Make(c.dtype, c.y);
  auto copy = opsnn::Tensor::Make(x.dtype(), c.x);
  if (!theirs.ok() || !copy.ok()) return 1;
  omp_set_num_threads(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  std::unordered_map<int, memory> args;
  const dnnl::primitive primitive = c.theirs(engine, x.raw(), theirs->raw(), &args);
  const auto run_ours = [&] { (void)model->Run(*feeds, &outputs).ok(); };
  const auto run_theirs = [&] { primitive.execute(stream, args), stream.wait(); };
  const auto run_copy = [&] {
#pragma omp parallel for num_threads(threads)
    for (int t = 0; t < threads; ++t) {
      const size_t from = x.bytes() * static_cast<size_t>(t) / static_cast<size_t>(threads),
                   to = x.bytes() * static_cast<size_t>(t + 1) / static_cast<size_t>(threads);
      std::memcpy(copy->data<char>() + from, x.data<char>() + from, to - from);
    }
  };
  run_ours(), run_theirs(), run_copy();
  if (Comparable(c)) {
    const std::vector<double> a = outputs[0].ToDoubles(), b = theirs->ToDoubles();
    double most = 0, largest = 0;
    for (size_t i = 0; i < a.size(); ++i)
      most = std::max(most, std::fabs(a[i] - b[i])), largest = std::max(largest, std::fabs(b[i]));
    if (!(most <= (c.dtype == opsnn::DType::kF32 ? 1e-5 : 1e-2) * largest))
      std::printf("  %s: they differ by %g\n", c.name.c_str(), most);
  }
  std::vector<double> times[3];
  const double begin = Now();
  for (int i = 0; i < 7 || Now() - begin < seconds; ++i) {
    const auto turn = [&](auto&& run, std::vector<double>* to) {
      if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (threads > 1) run();
      const double t0 = Now();
      run();
      to->push_back(Now() - t0);
    };
    turn(run_ours, &times[0]), turn(run_theirs, &times[1]), turn(run_copy, &times[2]);
  }
  const double a = Median(times[0]), b = Median(times[1]), copied = Median(times[2]);
  std::printf(
      "%-32s %dT  opsnn %9.1f us  oneDNN %9.1f us  ratio %.3f  copy of the input %9.1f us (%.0f %%)\n",
      c.name.c_str(), threads, a * 1e6, b * 1e6, b / a, copied * 1e6, 100 * copied / a);
  std::fflush(stdout);
  return 0;
}

int Main(int argc, char** argv) {
  const int given = argc > 1 ? std::atoi(argv[1]) : 0;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.6;
  const std::string filter = argc > 3 ? argv[3] : "";
  if (auto s = opsnn::Initialize(); !s.ok()) return std::fprintf(stderr, "%s\n", s.message().c_str()), 1;
  const dnnl_version_t* v = dnnl_version();
  std::printf("oneDNN %d.%d.%d; medians, ratio = oneDNN / opsnn\n", v->major, v->minor, v->patch);
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<int> counts = given > 0 ? std::vector<int>{given} : std::vector<int>{1};
  if (given == 0 && all > 1) counts.push_back(all);
  for (const int threads : counts) {
    if (auto s = opsnn::SetOption("threads", std::to_string(threads)); !s.ok()) return 1;
    for (const Case& c : Cases())
      if (c.name.find(filter) != std::string::npos && Measure(c, threads, seconds) != 0) return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  opsnn::peers::StartWithQuietOpenMp(argv);
  return Main(argc, argv);
}
