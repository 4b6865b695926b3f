// The tile for weights that are not finite, whose products with padding must not be taken for products with
// zero; and whether numbers are finite.
#include <algorithm>

#include "kernels/conv/pack.h"
#include "kernels/conv/tile.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/tile_skipping.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/conv/epilogue-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kC0>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// The sum of one pixel in the lanes from `lane` on of all blocks.
HWY_INLINE V PixelSum(const TileArgs& t, int64_t pixel, const float* x, int lanes, int lane, int64_t marks) {
  const D d;
  V acc = t.bias ? hn::LoadU(d, t.bias + lane) : hn::Zero(d);
  const float* w = t.weights + lane;
  for (int64_t s = 0; s < t.num_segments; ++s) {
    const Segment& seg = t.segments[s];
    const float* const from = x + seg.offset;
    const bool meets = !t.masks || ((t.masks[seg.tap] >> pixel) & 1);
    for (int i = 0; i < seg.len; ++i, w += lanes) {
      if (!meets || (marks != 0 && from[i + marks] == 0)) continue;
      acc = hn::MulAdd(hn::LoadU(d, w), hn::Set(d, from[i]), acc);
    }
  }
  return acc;
}

void SkippingTileTier(const TileArgs& t, int blocks, int64_t distance, int64_t marks) {
  const D d;
  const int lanes = blocks * kC0;
  for (int64_t p = 0; p < t.pixels * t.repeat; ++p) {
    const float* const x = t.x + (t.pixel_offset ? t.pixel_offset[p] : p * distance);
    const int64_t out = t.out_offset ? t.out_offset[p] : p * kC0;
    for (int lane = 0; lane < lanes; lane += kLanes) {
      const int64_t at = out + lane / kC0 * t.block_stride + lane % kC0;
      V acc[1][1] = {{PixelSum(t, p, x, lanes, lane, marks)}};
      if (t.residual) acc[0][0] = hn::Add(acc[0][0], hn::LoadU(d, t.residual + at));
      ApplyInRegisters<1, 1>(d, *t.post, acc);
      HWY_ALIGN float values[kLanes];
      hn::Store(acc[0][0], d, values);
      const int begin = std::clamp(t.lane_begin - lane % kC0, 0, kLanes),
                end = std::clamp(t.lane_end - lane % kC0, 0, kLanes);
      std::copy(values + begin, values + std::max(begin, end), t.y + at + begin);
    }
  }
}

bool AllFiniteTier(const float* v, int64_t count) {
  const hn::ScalableTag<uint32_t> du;
  const hn::RebindToFloat<decltype(du)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(du));
  constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
  const auto magnitude = hn::Set(du, kMagnitude);
  const auto at = [&](int64_t i)
                      HWY_ATTR { return hn::And(hn::BitCast(du, hn::LoadU(df, v + i)), magnitude); };
  auto most = hn::Zero(du), other = most;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes)
    most = hn::Max(most, at(i)), other = hn::Max(other, at(i + lanes));
  bool finite = hn::AllTrue(du, hn::Lt(hn::Max(most, other), hn::Set(du, kInfinity)));
  for (; i < count; ++i) finite = finite && v[i] - v[i] == 0;
  return finite;
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(SkippingTileTier);
OPSNN_TIER_TABLE(AllFiniteTier);
bool AllFinite(const float* v, int64_t count) { return OPSNN_TIER_CALL(AllFiniteTier)(v, count); }
void SkippingTile(const TileArgs& t, int blocks, int64_t distance, int64_t marks) {
  OPSNN_TIER_CALL(SkippingTileTier)(t, blocks, distance, marks);
}
}  // namespace opsnn::conv
#endif
