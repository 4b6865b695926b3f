#include "kernels/pool/row.h"

#include <algorithm>
#include <limits>

#include "kernels/pool/inside.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/row.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::pool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kC0>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr float kLowest = -std::numeric_limits<float>::infinity();

template <Kind kKind>
HWY_INLINE V Combine(V acc, V x) {
  if constexpr (kKind == Kind::kAverage) return hn::Add(acc, x);
  // Max alone may drop a NaN on either side, depending on the instruction set.
  const V m = hn::IfThenElse(hn::IsNaN(x), x, hn::Max(acc, x));
  return hn::IfThenElse(hn::IsNaN(acc), acc, m);
}

template <Kind kKind>
HWY_INLINE float Neutral() {
  return kKind == Kind::kAverage ? 0.0f : kLowest;
}

// Four pixels at a time hide the latency of the running maximum or sum. Columns outside the image read a line
// of neutral values instead of branching.
template <Kind kKind>
void Row(const PoolRow& r) {
  constexpr int P = 4;
  const D d;
  HWY_ALIGN float neutral[kC0];
  std::fill(neutral, neutral + kC0, Neutral<kKind>());
  for (int64_t ox = 0; ox < r.ow; ox += P) {
    // Kernel columns that meet the image for the last of these pixels or the first: a window much wider than
    // the image costs no more than the image.
    const int64_t first = ox * r.sw - r.pl;
    const int64_t last = first + (P - 1) * r.sw;
    const bool all = first >= 0 && last + (r.kw - 1) * r.dw < r.w;  // saves the divisions
    const int64_t kx_begin = all ? 0 : Inside(last, r.kw, r.dw, 0, r.w).begin;
    const int64_t kx_end = all ? r.kw : Inside(first, r.kw, r.dw, 0, r.w).end;
    for (int lane = 0; lane < kC0; lane += kLanes) {
      V acc[P];
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) acc[p] = hn::Set(d, Neutral<kKind>());
      for (int64_t ky = r.ky_begin; ky < r.ky_end; ++ky) {
        const float* row = r.x + (r.iy + ky * r.dh - r.first_row) * r.w * kC0 + lane;
        for (int64_t kx = kx_begin; kx < kx_end; ++kx) {
#pragma GCC unroll 4
          for (int p = 0; p < P; ++p) {
            const int64_t ix = (ox + p) * r.sw - r.pl + kx * r.dw;
            const bool in = static_cast<uint64_t>(ix) < static_cast<uint64_t>(r.w);
            acc[p] = Combine<kKind>(acc[p], hn::LoadU(d, in ? row + ix * kC0 : neutral));
          }
        }
      }
#pragma GCC unroll 4
      for (int p = 0; p < P; ++p) {
        if (ox + p >= r.ow) break;
        if (kKind == Kind::kAverage) acc[p] = hn::Mul(acc[p], hn::Set(d, r.scale[ox + p]));
        hn::StoreU(acc[p], d, r.y + (ox + p) * kC0 + lane);
      }
    }
  }
}

// Eight partial results, combined pairwise: hides latency and keeps the error of long sums small.
template <Kind kKind>
void Block(const float* x, int64_t pixels, float* y) {
  constexpr int P = 8;
  const D d;
  for (int lane = 0; lane < kC0; lane += kLanes) {
    V acc[P];
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) acc[p] = hn::Set(d, Neutral<kKind>());
    const float* at = x + lane;
    int64_t i = 0;
    for (; i + P <= pixels; i += P, at += P * kC0) {
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) acc[p] = Combine<kKind>(acc[p], hn::LoadU(d, at + p * kC0));
    }
    for (; i < pixels; ++i, at += kC0) acc[0] = Combine<kKind>(acc[0], hn::LoadU(d, at));
#pragma GCC unroll 3
    for (int half = P / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
      for (int p = 0; p < half; ++p) acc[p] = Combine<kKind>(acc[p], acc[p + half]);
    }
    hn::StoreU(acc[0], d, y + lane);
  }
}

// A plane is read as blocks of kC0 neighbouring pixels; the tail and the lanes are combined in order.
template <Kind kKind>
float Plane(const float* x, int64_t n) {
  HWY_ALIGN float lanes[kC0];
  Block<kKind>(x, n / kC0, lanes);
  const auto combine = [](float a, float b) {
    if (kKind == Kind::kAverage) return a + b;
    if (a != a || b != b) return a != a ? a : b;
    return a > b ? a : b;
  };
  for (int64_t i = n / kC0 * kC0; i < n; ++i) lanes[i % kC0] = combine(lanes[i % kC0], x[i]);
  for (int half = kC0 / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] = combine(lanes[l], lanes[l + half]);
  return lanes[0];
}

void RunRowTier(const PoolRow& r) { r.kind == Kind::kMax ? Row<Kind::kMax>(r) : Row<Kind::kAverage>(r); }
void ReduceBlockTier(Kind kind, const float* x, int64_t pixels, float* y) {
  kind == Kind::kMax ? Block<Kind::kMax>(x, pixels, y) : Block<Kind::kAverage>(x, pixels, y);
}
float ReducePlaneTier(Kind kind, const float* x, int64_t n) {
  return kind == Kind::kMax ? Plane<Kind::kMax>(x, n) : Plane<Kind::kAverage>(x, n);
}

}  // namespace opsnn::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::pool {

OPSNN_TIER_TABLE(RunRowTier);
OPSNN_TIER_TABLE(ReduceBlockTier);
OPSNN_TIER_TABLE(ReducePlaneTier);

void RunRow(const PoolRow& r) { OPSNN_TIER_CALL(RunRowTier)(r); }
void ReduceBlock(Kind kind, const float* x, int64_t pixels, float* y) {
  OPSNN_TIER_CALL(ReduceBlockTier)(kind, x, pixels, y);
}
float ReducePlane(Kind kind, const float* x, int64_t n) {
  return OPSNN_TIER_CALL(ReducePlaneTier)(kind, x, n);
}

}  // namespace opsnn::pool
#endif
