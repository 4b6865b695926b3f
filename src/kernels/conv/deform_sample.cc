#include "kernels/conv/deform_sample.h"

#include "kernels/conv/conv.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/deform_sample.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void SampleTier(const float* x, const Corners* corners, int64_t pixels, float* out) {
  const hn::CappedTag<float, kC0> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  const auto one = hn::Set(d, 1.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    const Corners& c = corners[p];
    const auto right = hn::Set(d, c.right), down = hn::Set(d, c.down), mask = hn::Set(d, c.mask);
    const auto left = hn::Sub(one, right), up = hn::Sub(one, down);
    for (int lane = 0; lane < kC0; lane += kLanes) {
      const auto pixel = [&](int i) HWY_ATTR { return hn::LoadU(d, x + int64_t{c.at[i]} * kC0 + lane); };
      const auto top = hn::MulAdd(pixel(1), right, hn::Mul(pixel(0), left));
      const auto bottom = hn::MulAdd(pixel(3), right, hn::Mul(pixel(2), left));
      hn::StoreU(hn::Mul(hn::MulAdd(bottom, down, hn::Mul(top, up)), mask), d, out + p * kC0 + lane);
    }
  }
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(SampleTier);
void SampleBlock(const float* x, const Corners* corners, int64_t pixels, float* out) {
  OPSNN_TIER_CALL(SampleTier)(x, corners, pixels, out);
}
}  // namespace opsnn::conv
#endif
