#include "kernels/conv/deform_sample.h"

#include <algorithm>

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

void AddPlaceGradsTier(const float* x, const Corners* corners, int64_t pixels, const float* g, int lanes,
                       const PlaceGrads& to) {
  const hn::CappedTag<float, kC0> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  const auto one = hn::Set(d, 1.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    const Corners& c = corners[p];
    const auto right = hn::Set(d, c.right), down = hn::Set(d, c.down);
    const auto left = hn::Sub(one, right), up = hn::Sub(one, down);
    auto by_down = hn::Zero(d), by_right = hn::Zero(d), by_mask = hn::Zero(d);
    for (int lane = 0; lane < kC0; lane += kLanes) {
      // Lanes that are no channel may hold 0 times an infinity.
      const auto real = hn::FirstN(d, static_cast<size_t>(std::clamp(lanes - lane, 0, kLanes)));
      const auto v = hn::IfThenElseZero(real, hn::LoadU(d, g + p * kC0 + lane));
      const auto pixel = [&](int i) HWY_ATTR { return hn::LoadU(d, x + int64_t{c.at[i]} * kC0 + lane); };
      const auto p0 = pixel(0), p1 = pixel(1), p2 = pixel(2), p3 = pixel(3);
      const auto top = hn::MulAdd(p1, right, hn::Mul(p0, left));
      const auto bottom = hn::MulAdd(p3, right, hn::Mul(p2, left));
      by_mask = hn::MulAdd(v, hn::MulAdd(bottom, down, hn::Mul(top, up)), by_mask);
      by_down = hn::MulAdd(v, hn::Sub(bottom, top), by_down);
      const auto across = hn::MulAdd(hn::Sub(p3, p2), down, hn::Mul(hn::Sub(p1, p0), up));
      by_right = hn::MulAdd(v, across, by_right);
    }
    const auto sum = [&](auto v) HWY_ATTR { return hn::GetLane(hn::SumOfLanes(d, v)); };
    to.down[p] += sum(by_down) * c.mask;
    to.right[p] += sum(by_right) * c.mask;
    if (to.mask) to.mask[p] += sum(by_mask);
  }
}

void SpreadTier(const Corners* corners, int64_t pixels, const float* g, float* dx) {
  const hn::CappedTag<float, kC0> d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  const auto one = hn::Set(d, 1.0f);
  for (int64_t p = 0; p < pixels; ++p) {
    const Corners& c = corners[p];
    const auto right = hn::Set(d, c.right), down = hn::Set(d, c.down), mask = hn::Set(d, c.mask);
    const auto left = hn::Sub(one, right), up = hn::Sub(one, down);
    for (int lane = 0; lane < kC0; lane += kLanes) {
      const auto v = hn::Mul(hn::LoadU(d, g + p * kC0 + lane), mask);
      const auto top = hn::Mul(v, up), bottom = hn::Mul(v, down);
      const auto add = [&](int i, auto part, auto share) HWY_ATTR {
        float* const at = dx + int64_t{c.at[i]} * kC0 + lane;
        hn::StoreU(hn::MulAdd(part, share, hn::LoadU(d, at)), d, at);
      };
      add(0, top, left), add(1, top, right), add(2, bottom, left), add(3, bottom, right);
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
OPSNN_TIER_TABLE(AddPlaceGradsTier);
OPSNN_TIER_TABLE(SpreadTier);
void AddPlaceGrads(const float* x, const Corners* corners, int64_t pixels, const float* g, int lanes,
                   const PlaceGrads& to) {
  OPSNN_TIER_CALL(AddPlaceGradsTier)(x, corners, pixels, g, lanes, to);
}
void SpreadBlock(const Corners* corners, int64_t pixels, const float* g, float* dx) {
  OPSNN_TIER_CALL(SpreadTier)(corners, pixels, g, dx);
}
}  // namespace opsnn::conv
#endif
