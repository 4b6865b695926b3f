// Body of the convolution tile, one instantiation per register shape. See tile.h.
#if defined(OPSNN_KERNELS_CONV_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_CONV_TILE_INL_H_
#undef OPSNN_KERNELS_CONV_TILE_INL_H_
#else
#define OPSNN_KERNELS_CONV_TILE_INL_H_
#endif

#include <algorithm>

#include "isa/hwy.h"
#include "kernels/conv/epilogue-inl.h"
#include "kernels/conv/tile.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

alignas(64) constexpr float kZeros[kC0] = {};
constexpr int64_t kLineBytes = 64;

// What a partly stored tile leaves in memory: pixels past t.pixels, or lanes of other groups, stay untouched.
template <int kBlocks, int P, class D, class V = hn::Vec<D>>
HWY_NOINLINE void StorePart(D d, const TileArgs& t, const V (&acc)[kBlocks * kC0 / hn::MaxLanes(D())][P]) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d)), kPerBlock = kC0 / kLanes;
  for (int p = 0; p < t.pixels; ++p) {
    float* to = t.y + (t.out_offset ? t.out_offset[p] : int64_t{p} * kC0);
    for (int b = 0; b < kBlocks; ++b, to += t.block_stride) {
      HWY_ALIGN float block[kC0];
      for (int v = 0; v < kPerBlock; ++v) hn::Store(acc[b * kPerBlock + v][p], d, block + v * kLanes);
      std::copy(block + t.lane_begin, block + t.lane_end, to + t.lane_begin);
    }
  }
}

// acc += weights x pixels for one input value per pixel: NV weight vectors, P broadcasts less those at either
// end that are left out.
template <int kFirst, int kLast, int NV, int P, class D, class Value, class V = hn::Vec<D>>
HWY_INLINE void MultiplyAdd(D d, const float* w, V (&acc)[NV][P], Value value) {
  V wv[NV];
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v) wv[v] = hn::LoadU(d, w + v * static_cast<int>(hn::MaxLanes(d)));
#pragma GCC unroll 32
  for (int p = kFirst; p < P - kLast; ++p) {
    const V b = hn::Set(d, value(p));
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) acc[v][p] = hn::MulAdd(wv[v], b, acc[v][p]);
  }
}

// The inner products of one segment whose pixels are kDistance floats apart; w moves behind its weights.
template <int kFirst, int kLast, int kBlocks, int kDistance, int NV, int P, class D, class V = hn::Vec<D>>
HWY_INLINE void RowSegment(D d, const float* base, int len, const float*& w, V (&acc)[NV][P]) {
  for (int i = 0; i < len; ++i, w += kBlocks * kC0) {
    MultiplyAdd<kFirst, kLast>(d, w, acc, [&](int p) HWY_ATTR { return base[p * kDistance + i]; });
  }
}

// Over 60 lines: the accumulators must stay in one function's registers from bias to store.
// Blocks x P pixels x one block of channels; P broadcasts and NV weight vectors feed NV * P FMAs per input
// value. kStep as in Step: 0 reads pixels through the table, else they are kStep floats apart and the tile is
// repeated.
template <int kBlocks, int P, int kStep = 0>
void Tile(const TileArgs& t) {
  const hn::CappedTag<float, kC0> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  constexpr int kPerBlock = kC0 / kLanes;
  constexpr int NV = kBlocks * kPerBlock;
  constexpr bool kTable = kStep < 0;
  constexpr int kDistance = kTable ? -kStep : kStep;
  constexpr bool kPlane = kStep == 1 || kStep == 2;
  [[maybe_unused]] constexpr uint32_t kAll = ~0u >> (32 - P);
  static_assert(P <= kMaxPixels);
  // Copies: stores through float pointers could change the originals, for all the compiler knows.
  const int64_t* const pixel_offset = t.pixel_offset;
  const int64_t* const out_offset = t.out_offset;
  const Segment* const segments = t.segments;
  const int64_t num_segments = t.num_segments, block_stride = t.block_stride,
                prefetch_bytes = t.prefetch_bytes;
  const float* const bias = t.bias;
  const char* prefetch = t.prefetch;
  const int pixels = t.pixels;
  [[maybe_unused]] const bool in_row = t.in_row, skips = t.skips;
  const bool whole = pixels == P && t.lane_begin == 0 && t.lane_end == kC0;

  for (int64_t r = 0; r < t.repeat; ++r) {
    const float* const x = t.x + r * P * kDistance;
    V acc[NV][P];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) {
      const V b = bias ? hn::LoadU(d, bias + v * kLanes) : hn::Zero(d);
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) acc[v][p] = b;
    }

    const float* w = t.weights;
    if constexpr (kPlane) {  // segments of one value: the end of an inner loop of a few rounds is guessed
                             // wrong
      for (int64_t s = 0; s < num_segments; ++s, w += kBlocks * kC0) {
        const float* base = x + segments[s].offset;
        MultiplyAdd<0, 0>(d, w, acc, [&](int p) HWY_ATTR { return base[p * kDistance]; });
      }
    }
    for (int64_t s = 0; !kPlane && s < num_segments; ++s) {
      const Segment seg = segments[s];
      const float* base = x + seg.offset;
      [[maybe_unused]] const uint32_t mask = kTable && t.masks ? t.masks[seg.tap] : ~0u;
      for (int64_t at = 0; at < prefetch_bytes; at += kLineBytes)
        __builtin_prefetch(prefetch + at, 0, 2);  // to L2
      prefetch += prefetch_bytes;
      // The channels after these lie a plane away, where no hardware prefetcher looks.
      if constexpr (kStep == kC0 || kTable) {
        const float* ahead = x + segments[s + 1 < num_segments ? s + 1 : s].offset;
        if constexpr (kTable) ahead += pixel_offset[0];
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) __builtin_prefetch(ahead + p * kDistance);
      }
      if constexpr (!kTable) {
        RowSegment<0, 0, kBlocks, kDistance>(d, base, seg.len, w, acc);
      } else if (in_row && mask == ~0u) {
        RowSegment<0, 0, kBlocks, kDistance>(d, base + pixel_offset[0], seg.len, w, acc);
      } else if (skips && (mask & kAll) == 0) {
        w += int64_t{seg.len} * kBlocks * kC0;
      } else if (P > 1 && skips && in_row && mask == ~1u) {
        RowSegment<1, 0, kBlocks, kDistance>(d, base + pixel_offset[0], seg.len, w, acc);
      } else if (P > 1 && skips && in_row && mask == ~(1u << (P - 1))) {
        RowSegment<0, 1, kBlocks, kDistance>(d, base + pixel_offset[0], seg.len, w, acc);
      } else {
        const float* pixel[P];
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) pixel[p] = (mask >> p) & 1 ? base + pixel_offset[p] : kZeros;
        for (int i = 0; i < seg.len; ++i, w += kBlocks * kC0) {
          MultiplyAdd<0, 0>(d, w, acc, [&](int p) HWY_ATTR { return pixel[p][i]; });
        }
      }
    }

    if (t.residual) {
      const float* const residual = t.residual + r * P * kC0;
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) {
        const int q = p < pixels ? p : 0;  // pixels that are not stored need not exist
        const float* at = residual + (kTable ? out_offset[q] : int64_t{q} * kC0);
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) {
          acc[v][p] = hn::Add(acc[v][p],
                              hn::LoadU(d, at + (v / kPerBlock) * block_stride + (v % kPerBlock) * kLanes));
        }
      }
    }
    ApplyInRegisters<NV, P>(d, *t.post, acc);
    if (HWY_LIKELY(whole)) {
      float* const y = t.y + r * P * kC0;
#pragma GCC unroll 32
      for (int p = 0; p < P; ++p) {
        float* to = y + (kTable ? out_offset[p] : int64_t{p} * kC0);
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) {
          hn::StoreU(acc[v][p], d, to + (v / kPerBlock) * block_stride + (v % kPerBlock) * kLanes);
        }
      }
    } else {
      V copy[NV][P];  // if acc itself were passed on, it would live in memory throughout
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v)
#pragma GCC unroll 32
        for (int p = 0; p < P; ++p) copy[v][p] = acc[v][p];
      StorePart<kBlocks, P>(d, t, copy);
    }
  }
}

// The row of a tile list. Narrow tiles have no pointwise form of their own (the table serves). They and those
// between two others borrow the first layer's form from a wider tile of kRowP pixels, whose spare pixels are
// not stored.
template <int kBlocks, int P, int kRowP = P, bool kWide = kRowP == P>
constexpr TileKernel MakeTile() {
  return {kBlocks,
          P,
          {Tile<kBlocks, P, -kC0>, kWide ? Tile<kBlocks, P, -2 * kC0> : nullptr,
           kWide ? Tile<kBlocks, P, kC0> : nullptr, Tile<kBlocks, kRowP, 1>, Tile<kBlocks, kRowP, 2>}};
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
