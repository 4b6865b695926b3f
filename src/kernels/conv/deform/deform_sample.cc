#include "kernels/conv/deform/deform_sample.h"

#include <algorithm>

#include "kernels/conv/conv.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/deform/deform_sample.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kC0>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// What the two rows and the two columns around a place count.
struct Shares {
  V right, down, left, up;
  HWY_INLINE explicit Shares(const Corners& c) {
    const D d;
    const V one = hn::Set(d, 1.0f);
    right = hn::Set(d, c.right), down = hn::Set(d, c.down);
    left = hn::Sub(one, right), up = hn::Sub(one, down);
  }
};

// The pixels around a place, in the lanes from `lane` on, and what lies between them.
struct Sampled {
  V p[4], top, bottom, value;
  HWY_INLINE Sampled(const float* x, const Corners& c, const Shares& s, int lane) {
    const D d;
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) p[i] = hn::LoadU(d, x + int64_t{c.at[i]} * kC0 + lane);
    top = hn::MulAdd(p[1], s.right, hn::Mul(p[0], s.left));
    bottom = hn::MulAdd(p[3], s.right, hn::Mul(p[2], s.left));
    value = hn::MulAdd(bottom, s.down, hn::Mul(top, s.up));
  }
};

void SampleTier(const float* x, const Corners* corners, int64_t pixels, float* out) {
  const D d;
  for (int64_t p = 0; p < pixels; ++p) {
    const Corners& c = corners[p];
    const Shares shares(c);
    const V mask = hn::Set(d, c.mask);
    for (int lane = 0; lane < kC0; lane += kLanes)
      hn::StoreU(hn::Mul(Sampled(x, c, shares, lane).value, mask), d, out + p * kC0 + lane);
  }
}

void AddPlaceGradsTier(const float* x, const Corners* corners, int64_t pixels, const float* g, int lanes,
                       const PlaceGrads& to) {
  const D d;
  for (int64_t p = 0; p < pixels; ++p) {
    const Corners& c = corners[p];
    const Shares shares(c);
    V by_down = hn::Zero(d), by_right = hn::Zero(d), by_mask = hn::Zero(d);
    for (int lane = 0; lane < kC0; lane += kLanes) {
      // Lanes that are no channel may hold 0 times an infinity.
      const auto real = hn::FirstN(d, static_cast<size_t>(std::clamp(lanes - lane, 0, kLanes)));
      const V v = hn::IfThenElseZero(real, hn::LoadU(d, g + p * kC0 + lane));
      const Sampled at(x, c, shares, lane);
      by_mask = hn::MulAdd(v, at.value, by_mask);
      by_down = hn::MulAdd(v, hn::Sub(at.bottom, at.top), by_down);
      const V across =
          hn::MulAdd(hn::Sub(at.p[3], at.p[2]), shares.down, hn::Mul(hn::Sub(at.p[1], at.p[0]), shares.up));
      by_right = hn::MulAdd(v, across, by_right);
    }
    const auto sum = [&](V v) HWY_ATTR { return hn::GetLane(hn::SumOfLanes(d, v)); };
    to.down[p] += sum(by_down) * c.mask;
    to.right[p] += sum(by_right) * c.mask;
    if (to.mask) to.mask[p] += sum(by_mask);
  }
}

void SpreadTier(const Corners* corners, int64_t pixels, const float* g, float* dx) {
  const D d;
  for (int64_t p = 0; p < pixels; ++p) {
    const Corners& c = corners[p];
    const Shares shares(c);
    const V mask = hn::Set(d, c.mask);
    for (int lane = 0; lane < kC0; lane += kLanes) {
      const auto v = hn::Mul(hn::LoadU(d, g + p * kC0 + lane), mask);
      const auto top = hn::Mul(v, shares.up), bottom = hn::Mul(v, shares.down);
      const auto add = [&](int i, auto part, auto share) HWY_ATTR {
        float* const at = dx + int64_t{c.at[i]} * kC0 + lane;
        hn::StoreU(hn::MulAdd(part, share, hn::LoadU(d, at)), d, at);
      };
      add(0, top, shares.left), add(1, top, shares.right);
      add(2, bottom, shares.left), add(3, bottom, shares.right);
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
