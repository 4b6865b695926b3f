// Gradient of the weights, conversions of the images included: GFLOP/s.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "kernels/conv/grad/weight_grad.h"

namespace opsnn::conv {
namespace {

void BM_WeightGrad(benchmark::State& state, int64_t n, int64_t c, int64_t size, int64_t oc, int64_t k,
                   int64_t stride, int64_t groups, int threads) {
  SetNumThreads(threads);
  ConvShape s;
  s.n = n, s.c = c, s.h = s.w = size, s.oc = oc, s.kh = s.kw = k, s.sh = s.sw = stride, s.pt = s.pl = k / 2;
  s.groups = groups;
  s.oh = s.ow = (size + 2 * (k / 2) - k) / stride + 1;
  const WeightGradPlan plan = PlanWeightGrad(s);
  std::vector<float> x(static_cast<size_t>(s.n * s.c * s.plane()), 0.5f),
      dy(static_cast<size_t>(s.n * s.oc * s.out_plane()), 0.25f),
      dw(static_cast<size_t>(s.oc * (s.c / s.groups) * s.taps()));
  AlignedBuffer workspace(plan.workspace_bytes);
  for (auto _ : state) RunWeightGrad(plan, x.data(), dy.data(), dw.data(), workspace.data());
  const double flops = 2.0 * static_cast<double>(n * oc * s.oh * s.ow * (c / groups) * k * k);
  state.counters["GFLOP/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  SetNumThreads(0);
}

[[maybe_unused]] const bool registered = [] {
  struct Layer {
    const char* name;
    int64_t n, c, size, oc, k, stride, groups;
  };
  for (const Layer& l : {Layer{"7x7s2 3->64 @224", 1, 3, 224, 64, 7, 2, 1},
                         {"3x3 64->64 @56", 1, 64, 56, 64, 3, 1, 1},
                         {"3x3 256->256 @14", 1, 256, 14, 256, 3, 1, 1},
                         {"3x3 512->512 @7", 1, 512, 7, 512, 3, 1, 1},
                         {"1x1 64->256 @56", 1, 64, 56, 256, 1, 1, 1},
                         {"1x1 512->2048 @7", 1, 512, 7, 2048, 1, 1, 1},
                         {"3x3 64->64 @56 n8", 8, 64, 56, 64, 3, 1, 1},
                         {"1x1 64->256 @56 n8", 8, 64, 56, 256, 1, 1, 1},
                         {"1x1 512->2048 @7 n8", 8, 512, 7, 2048, 1, 1, 1},
                         {"dw3x3 144 @56", 1, 144, 56, 144, 3, 1, 144}}) {
    for (int threads : {1, 2}) {
      benchmark::RegisterBenchmark(
          ("weight_grad " + std::string(l.name) + "/threads:" + std::to_string(threads)).c_str(),
          [l, threads](benchmark::State& s) {
            BM_WeightGrad(s, l.n, l.c, l.size, l.oc, l.k, l.stride, l.groups, threads);
          })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond)
          ->MinTime(0.1);
    }
  }
  return true;
}();

}  // namespace
}  // namespace opsnn::conv
