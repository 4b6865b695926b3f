// Body of the convolution tile, one instantiation per register shape. See tile.h.
#if defined(OPSNN_KERNELS_CONV_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_CONV_TILE_INL_H_
#undef OPSNN_KERNELS_CONV_TILE_INL_H_
#else
#define OPSNN_KERNELS_CONV_TILE_INL_H_
#endif

#include "isa/hwy.h"
#include "kernels/conv/epilogue-inl.h"
#include "kernels/conv/tile.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

alignas(64) constexpr float kZeros[kC0] = {};
constexpr int64_t kLineBytes = 64;

// Over 60 lines: the accumulators must stay in one function's registers from bias to store.
// Blocks x P pixels x one block of channels; P broadcasts and NV weight vectors feed NV * P FMAs per input
// value.
// kStep as in Step: 0 reads pixels through the table, else they are kStep floats apart.
template <int kBlocks, int P, int kStep = 0>
void Tile(const TileArgs& t) {
  const hn::CappedTag<float, kC0> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int kPerBlock = kC0 / kLanes;
  constexpr int NV = kBlocks * kPerBlock;
  static_assert(P <= kMaxPixels);

  V acc[NV][P];
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v) {
    const V b = t.bias ? hn::LoadU(d, t.bias + v * kLanes) : hn::Zero(d);
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) acc[v][p] = b;
  }

  [[maybe_unused]] const float* pixel[P];
  const float* w = t.weights;
  for (int64_t s = 0; s < t.num_segments; ++s) {
    const Segment seg = t.segments[s];
    const float* base = t.x + seg.offset;
    if constexpr (kStep == 0) {
      const uint32_t mask = t.masks ? t.masks[seg.tap] : ~0u;
      if (mask == ~0u) {
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) pixel[p] = base + t.pixel_offset[p];
      } else {
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) pixel[p] = (mask >> p) & 1 ? base + t.pixel_offset[p] : kZeros;
      }
    }
    for (int64_t at = 0; at < t.prefetch_bytes; at += kLineBytes) {
      __builtin_prefetch(t.prefetch + s * t.prefetch_bytes + at, 0, 2);  // to L2
    }
    for (int i = 0; i < seg.len; ++i) {
      V wv[NV];
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) wv[v] = hn::LoadU(d, w + v * kLanes);
      w += kBlocks * kC0;
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) {
        const V b = hn::Set(d, kStep == 0 ? pixel[p][i] : base[p * kStep + i]);
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) acc[v][p] = hn::MulAdd(wv[v], b, acc[v][p]);
      }
    }
  }

  const auto out = [&t](int p) HWY_ATTR { return kStep == 0 ? t.out_offset[p] : int64_t{p} * kC0; };
  if (t.residual) {
#pragma GCC unroll 32
    for (int p = 0; p < P; ++p) {
      if (p >= t.pixels) break;
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) {
        const float* r = t.residual + (v / kPerBlock) * t.block_stride + out(p) + (v % kPerBlock) * kLanes;
        acc[v][p] = hn::Add(acc[v][p], hn::LoadU(d, r));
      }
    }
  }
  ApplyRegisterAct<NV, P>(d, t.act, t.act_imm, acc);
  const bool whole = t.lane_begin == 0 && t.lane_end == kC0;
  alignas(64) float scratch[kC0];
#pragma GCC unroll 32
  for (int p = 0; p < P; ++p) {
    if (p >= t.pixels) break;
    if (HWY_LIKELY(whole)) {
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) {
        float* y = t.y + (v / kPerBlock) * t.block_stride + out(p) + (v % kPerBlock) * kLanes;
        hn::StoreU(acc[v][p], d, y);
      }
    } else if constexpr (kBlocks == 1) {
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) hn::StoreU(acc[v][p], d, scratch + v * kLanes);
      for (int l = t.lane_begin; l < t.lane_end; ++l) t.y[out(p) + l] = scratch[l];
    }
  }
}

// The row of a tile list. Narrow tiles have no pointwise form of their own (the table serves) and borrow the
// first layer's from a wider one of kRowP pixels, whose spare pixels are not stored.
template <int kBlocks, int P, int kRowP = P>
constexpr TileKernel MakeTile() {
  return {kBlocks,
          P,
          Tile<kBlocks, P>,
          kRowP == P ? Tile<kBlocks, kRowP, kC0> : nullptr,
          Tile<kBlocks, kRowP, 1>,
          Tile<kBlocks, kRowP, 2>};
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
