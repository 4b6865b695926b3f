#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/peak.cc"
#include "kernels/gemm/peak.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>

#include "base/parallel.h"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "isa/tier.h"
#include "kernels/gemm/gemm.h"

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

namespace {
// Seconds of a cycle: a chain of additions takes one for each.
double CycleSeconds() {
  constexpr int kSteps = 4000;
  uint64_t x = 0;
  const auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      ++x;
      asm volatile("" : "+r"(x));
    }
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() / (8.0 * kSteps);
}

// Full cycles of a vector of multiply-adds: 1, or a half where two are issued at a time. Between the two
// there is nothing, so that noise does not matter.
double VectorCycles(const MicroTile& tile) {
  constexpr int kSamples = 6, kSteps = 700;
  double cycle = 1, rate = 0;
  for (int i = 0; i < kSamples; ++i) {
    rate = std::max(rate, Sample(kSteps));
    cycle = std::min(cycle, CycleSeconds());
  }
  const double lanes = tile.nr / 2.0, cycles = 2 * lanes / (rate * cycle);
  return cycles > 0.75 ? 1 : 0.5;
}
}  // namespace

double StepCycles() {
  static std::array<std::atomic<double>, isa::kNumTiers> known{};
  const isa::Tier tier = isa::ActiveTier();
  std::atomic<double>& cycles = known[static_cast<size_t>(tier)];
  if (cycles.load(std::memory_order_relaxed) == 0) {
    const MicroTile tile = TileFor(tier);
    double none = 0;  // the first answer stays
    cycles.compare_exchange_strong(none, tile.mr * 2 * VectorCycles(tile));
  }
  return cycles.load(std::memory_order_relaxed);
}

double FmaPeak(int samples) {
  double best = 0;
  for (int i = 0; i < samples; ++i) best = std::max(best, Sample(300000));
  return best;
}
}  // namespace opsnn::gemm
#endif
