#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/peak.cc"
#include "kernels/gemm/peak.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>

#include "base/parallel.h"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve independent chains: more than latency times ports (4 x 2) needs; every product depends on its chain,
// or tiers without FMA would hoist it. Returns flops done.
double FmaLoop(int64_t steps, float* sink) {
  constexpr int kChains = 12;
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> acc[kChains];
  const auto x = hn::Set(d, sink[0]), y = hn::Set(d, sink[1]);
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i)
    acc[i] = hn::Set(d, sink[0] * static_cast<float>(i));  // all different, or the compiler keeps one chain
  for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], x, y);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) acc[0] = hn::Add(acc[0], acc[i]);
  sink[2] = hn::GetLane(hn::SumOfLanes(d, acc[0]));
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(steps);
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(FmaLoop);
namespace {
double Sample(int64_t steps) {
  float sink[3] = {0.5f, 0.25f, 0};
  const auto t0 = std::chrono::steady_clock::now();
  const double flops = OPSNN_TIER_CALL(FmaLoop)(steps, sink);
  return flops / std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count();
}
}  // namespace

double FmaRate(int threads) {
  constexpr int kMaxThreads = 64;
  std::array<double, kMaxThreads> rates{};
  threads = std::min(threads, kMaxThreads);
  // A core that claims two of the samples measures the second as well as the first.
  ParallelFor(threads, [&](int64_t i, int) { rates[static_cast<size_t>(i)] = Sample(30000); });
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

double FmaPeak(int samples) {
  double best = 0;
  for (int i = 0; i < samples; ++i) best = std::max(best, Sample(300000));
  return best;
}
}  // namespace opsnn::gemm
#endif
