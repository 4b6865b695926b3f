// The tile for weights that are not finite: a product of one with padding must not be taken for one with
// zero.
#include <algorithm>

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

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(SkippingTileTier);
void SkippingTile(const TileArgs& t, int blocks, int64_t distance, int64_t marks) {
  OPSNN_TIER_CALL(SkippingTileTier)(t, blocks, distance, marks);
}
}  // namespace opsnn::conv
#endif
