#include "device/measure_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/measure_kernels.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Multiply-add has a latency of 4 to 5 cycles and two units: 10 independent chains keep both busy, and with
// the two constants fit the 16 registers of the narrow tiers.
constexpr int kChains = 10;

double MultiplyAddKernel(int64_t iterations, double* flops) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const V x = hn::Set(d, 0.999f), y = hn::Set(d, 1e-3f);
  V acc[kChains];
#pragma GCC unroll 10
  for (int i = 0; i < kChains; ++i) acc[i] = hn::Set(d, static_cast<float>(i));
  for (int64_t it = 0; it < iterations; ++it) {
#pragma GCC unroll 10
    for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], x, y);
  }
  V sum = hn::Zero(d);
#pragma GCC unroll 10
  for (int i = 0; i < kChains; ++i) sum = hn::Add(sum, acc[i]);
  *flops = 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(iterations);
  return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
}

float ReadKernel(const float* p, size_t n) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V acc[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) acc[i] = hn::Zero(d);
  for (size_t at = 0; at + 8 * lanes <= n; at += 8 * lanes) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i)
      acc[i] = hn::Add(acc[i], hn::Load(d, p + at + static_cast<size_t>(i) * lanes));
  }
  V sum = hn::Zero(d);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) sum = hn::Add(sum, acc[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void StreamingCopyKernel(const float* from, float* to, size_t n) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t at = 0; at + lanes <= n; at += lanes) hn::Stream(hn::Load(d, from + at), d, to + at);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn {
OPSNN_TIER_TABLE(MultiplyAddKernel);
OPSNN_TIER_TABLE(ReadKernel);
OPSNN_TIER_TABLE(StreamingCopyKernel);

namespace device {

double RunMultiplyAdds(int64_t iterations, double* flops) {
  return OPSNN_TIER_CALL(MultiplyAddKernel)(iterations, flops);
}
float RunRead(const float* p, size_t n) { return OPSNN_TIER_CALL(ReadKernel)(p, n); }
void RunStreamingCopy(const float* from, float* to, size_t n) {
  OPSNN_TIER_CALL(StreamingCopyKernel)(from, to, n);
}

uint64_t RunMultiplyChain(int64_t iterations, uint64_t factor) {
  uint64_t x = factor;
  for (int64_t i = 0; i < iterations; ++i) x *= factor;
  return x;
}

}  // namespace device
}  // namespace opsnn
#endif
