// gemm f32: GFLOP/s and the share of the FMA peak measured in turns. Results are verified once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/peak.h"

namespace opsnn::gemm {
namespace {

struct Case {
  int64_t m, n, k;
  bool transpose_b;
  bool constant_b;
};

bool Verify(std::span<const float> a, std::span<const float> b, std::span<const float> c, const Case& s) {
  for (int64_t t = 0; t < 64; ++t) {
    const int64_t i = t * 7919 % s.m, j = t * 104729 % s.n;
    double sum = 0, abs = 0;
    for (int64_t k = 0; k < s.k; ++k) {
      const double x = a[i * s.k + k], y = s.transpose_b ? b[j * s.k + k] : b[k * s.n + j];
      sum += x * y, abs += std::fabs(x * y);
    }
    if (std::fabs(c[i * s.n + j] - sum) > (2 * std::sqrt(double(s.k)) + 4) * 0x1p-24 * abs) return false;
  }
  return true;
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
  return v[v.size() / 2];
}

// Seconds between two samples of the peak, which moves with the clock and the neighbours of a virtual
// machine.
constexpr double kPeakInterval = 1e-3;

void BM_Gemm(benchmark::State& state) {
  const Case s{state.range(0), state.range(1), state.range(2), state.range(3) == 1, state.range(3) == 2};
  SetNumThreads(static_cast<int>(state.range(4)));
  // Memory as the library hands it out: aligned, on huge pages.
  AlignedBuffer a_buffer(s.m * s.k * sizeof(float)), b_buffer(s.k * s.n * sizeof(float)),
      c_buffer(s.m * s.n * sizeof(float));
  const std::span<float> a(a_buffer.as<float>(), s.m * s.k), b(b_buffer.as<float>(), s.k * s.n);
  const std::span<float> c(c_buffer.as<float>(), s.m * s.n);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 50;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 53 % 97) - 48) / 48;
  Params p;
  p.m = s.m, p.n = s.n, p.k = s.k;
  p.a = {a.data(), DType::kF32, s.k, 1, 0};
  p.b = {b.data(), DType::kF32, s.transpose_b ? 1 : s.n, s.transpose_b ? s.k : 1, 0};
  p.c = c.data(), p.c_row_stride = s.n;
  std::shared_ptr<const PackedB> packed;
  if (s.constant_b) {
    packed = PackB(p.b, s.k, s.n, 1, p.blocking);
    p.packed_b = packed.get();
  }
  Run(p);
  if (!Verify(a, b, c, s)) return state.SkipWithError("wrong result");
  const double flops = 2.0 * s.m * s.n * s.k;
  const int threads = static_cast<int>(state.range(4));
  std::vector<double> times, shares;
  double peak = FmaRate(threads), since = 0;
  for (auto _ : state) {
    const auto t0 = std::chrono::steady_clock::now();
    Run(p);
    const double t = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
    times.push_back(t);
    shares.push_back(flops / t / peak);
    state.SetIterationTime(t);
    since += t;
    if (since < kPeakInterval) continue;
    // The product lies between two samples of the peak, and is held against their mean.
    const double after = FmaRate(threads);
    shares.back() *= 2 * peak / (peak + after);
    peak = after, since = 0;
  }
  const double time = Median(times);
  state.SetLabel(Name(ChoosePath(p)));
  state.counters["GFLOP/s"] = flops / time * 1e-9;
  state.counters["%peak"] = 100 * Median(shares);
  state.counters["GB/s"] = 4.0 * (s.m * s.k + s.k * s.n + s.m * s.n) / time * 1e-9;
}

void Shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "n", "k", "b", "threads"});  // b: 0 row-major, 1 transposed, 2 constant, packed ahead
  for (int64_t n : {64, 128, 256, 512, 1024, 2048}) b->Args({n, n, n, 0, 1});
  for (int64_t m : {1, 4, 8, 16, 32}) {
    for (int64_t t : {0, 1}) b->Args({m, 4096, 4096, t, 1});
  }
  for (int64_t kind : {0, 1, 2}) {
    b->Args({128, 3072, 768, kind, 1});
    b->Args({128, 768, 3072, kind, 1});
  }
  b->Args({768, 768, 64, 0, 1})
      ->Args({4096, 64, 64, 0, 1})
      ->Args({1024, 1024, 1024, 1, 1})
      ->Args({100, 100, 100, 0, 1});
  for (int64_t n : {256, 512, 1024, 2048}) b->Args({n, n, n, 0, 2});
}
BENCHMARK(BM_Gemm)->Apply(Shapes)->UseManualTime()->MinTime(0.15);

}  // namespace
}  // namespace opsnn::gemm
