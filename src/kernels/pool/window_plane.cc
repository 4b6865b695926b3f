#include "kernels/pool/window_plane.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/window_plane.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::pool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The lane in front comes from the one behind it, the first from the last.
struct Backwards {
  HWY_ALIGN int32_t from[kLanes] = {};
  constexpr Backwards() {
    for (int64_t l = 0; l < kLanes; ++l) from[l] = static_cast<int32_t>((l + kLanes - 1) % kLanes);
  }
};

HWY_INLINE auto Inside(int64_t col, int64_t w) {
  return hn::FirstN(D(), static_cast<size_t>(std::clamp<int64_t>(w - col, 0, kLanes)));
}

template <Kind kKind>
HWY_INLINE V Combine(V a, V b) {
  if constexpr (kKind == Kind::kAverage) return hn::Add(a, b);
  return hn::Max(a, b);
}

// Columns [col, col + kLanes) of a row that ends at w; what lies behind changes nothing.
template <Kind kKind, bool kWhole>
HWY_INLINE V Columns(const float* row, int64_t col, int64_t w) {
  const D d;
  constexpr float kNeutral = kKind == Kind::kMax ? kLowest : 0;
  if constexpr (kWhole) return hn::LoadU(d, row + col);
  if constexpr (kLanes == 4) {  // SSE4 has no masked load
    HWY_ALIGN float lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = col + l < w ? row[col + l] : kNeutral;
    return hn::Load(d, lanes);
  } else {
    const auto inside = Inside(col, w);
    return hn::IfThenElse(inside, hn::MaskedLoad(inside, d, row + col), hn::Set(d, kNeutral));
  }
}

HWY_INLINE void Put(V v, float* y, int64_t n) {
  const D d;
  if (n >= kLanes) return hn::StoreU(v, d, y);
  if constexpr (kLanes == 4) {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(v, d, lanes);
    std::copy(lanes, lanes + n, y);
  } else {
    hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, y);
  }
}

// The same with zeros behind.
HWY_INLINE V Seen(const float* row, int64_t col, int64_t w) {
  return hn::IfThenElseZero(Inside(col, w), Columns<Kind::kAverage, false>(row, col, w));
}

// Where one of the values is NaN, so is their sum; plain maxima drop it.
template <Kind kKind>
HWY_INLINE void See(V v, V& seen) {
  if constexpr (kKind == Kind::kMax) seen = hn::Add(seen, v);
}

// down[c] combines the first rows of a window; columns behind the row are what changes nothing.
template <Kind kKind, int kRows>
HWY_INLINE void FirstRows(const float* const* row, int64_t w, float* down, V& seen) {
  const D d;
  int64_t c = 0;
  for (; c + kLanes <= w; c += kLanes) {
    V most = hn::LoadU(d, row[kRows - 1] + c);
    See<kKind>(most, seen);
    for (int r = 0; r < kRows - 1; ++r) most = Combine<kKind>(hn::LoadU(d, row[r] + c), most);
    hn::Store(most, d, down + c);
  }
  if (c == w) return;
  V most = Columns<kKind, false>(row[kRows - 1], c, w);
  See<kKind>(hn::IfThenElseZero(Inside(c, w), most), seen);
  for (int r = 0; r < kRows - 1; ++r) most = Combine<kKind>(Columns<kKind, false>(row[r], c, w), most);
  hn::Store(most, d, down + c);
}

// The image is read once from one end to the other, row by row, as prefetchers follow best: several rows side
// by side, or requests of our own, cost up to half of the bandwidth. So the first rows of a window go to a
// buffer, which the last one meets there. Even and odd columns of the windows lie in the vectors at hand; of
// three columns, the first is the odd one in front, a lane further on.
template <Kind kKind, int kKernel>
bool Plane(const PoolShape& s, const float* x, int64_t begin, int64_t end, float* y) {
  const D d;
  static constexpr Backwards kTable;
  const auto backwards = hn::SetTableIndices(d, kTable.from);
  const auto first = hn::FirstN(d, 1);
  const V scale = hn::Set(d, s.sum ? 1.0f : 1.0f / (kKernel * kKernel));
  V seen = hn::Zero(d), other = hn::Zero(d);
  const int64_t w = s.w, n = s.ow, whole = std::min(n, w / 2) / kLanes * kLanes;
  HWY_ALIGN float down[kWidestPlane + 4 * kLanes];
  for (int64_t c = w / kLanes * kLanes; c < w + 3 * kLanes; c += kLanes)
    hn::Store(hn::Set(d, kKind == Kind::kMax ? kLowest : 0), d, down + c);
  for (int64_t oy = begin; oy < end; ++oy, y += n) {
    const float* row[kKernel];
    // A row twice does not change a maximum.
    for (int r = 0; r < kKernel; ++r) row[r] = x + std::clamp<int64_t>(2 * oy + r - s.pt, 0, s.h - 1) * w;
    const float* const last = row[kKernel - 1];
    if (oy == begin && kKernel == 3)  // the others are the last row of the window above
      for (int64_t c = 0; c < w; c += kLanes) See<kKind>(Seen(row[0], c, w), seen);
    FirstRows<kKind, kKernel - 1>(row, w, down, seen);
    V behind = hn::Set(d, kLowest);
    const auto step = [&](int64_t o, V a, V b) HWY_ATTR {
      a = Combine<kKind>(hn::Load(d, down + 2 * o), a);
      b = Combine<kKind>(hn::Load(d, down + 2 * o + kLanes), b);
      const V odd = hn::ConcatOdd(d, b, a);
      V most = Combine<kKind>(hn::ConcatEven(d, b, a), odd);
      if constexpr (kKernel == 3) {
        const V turned = hn::TableLookupLanes(odd, backwards);
        most = Combine<kKind>(most, hn::IfThenElse(first, behind, turned));
        behind = turned;
      }
      if constexpr (kKind == Kind::kAverage) most = hn::Mul(most, scale);
      Put(most, y + o, n - o);
    };
    int64_t o = 0;
    for (; o < whole; o += kLanes) {
      const V a = hn::LoadU(d, last + 2 * o), b = hn::LoadU(d, last + 2 * o + kLanes);
      See<kKind>(a, seen), See<kKind>(b, other);
      step(o, a, b);
    }
    for (; o < n; o += kLanes) {
      const int64_t c = 2 * o;
      See<kKind>(Seen(last, c, w), seen), See<kKind>(Seen(last, c + kLanes, w), other);
      step(o, Columns<kKind, false>(last, c, w), Columns<kKind, false>(last, c + kLanes, w));
    }
  }
  return kKind == Kind::kAverage || hn::AllFalse(d, hn::IsNaN(hn::Add(seen, other)));
}

bool RunWindowPlaneTier(const PoolShape& s, const float* x, int64_t begin, int64_t end, float* y) {
  if (s.kw == 3) return Plane<Kind::kMax, 3>(s, x, begin, end, y);
  return s.kind == Kind::kMax ? Plane<Kind::kMax, 2>(s, x, begin, end, y)
                              : Plane<Kind::kAverage, 2>(s, x, begin, end, y);
}

void StreamLinesTier(const float* from, int64_t n, float* to) {
  const D d;
  for (int64_t i = 0; i < n; i += kLanes) hn::Stream(hn::Load(d, from + i), d, to + i);
}

}  // namespace opsnn::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::pool {

OPSNN_TIER_TABLE(RunWindowPlaneTier);
OPSNN_TIER_TABLE(StreamLinesTier);

bool FitsWindowPlane(const PoolShape& s) {
  if (s.w > kWidestPlane || s.sh != 2 || s.sw != 2 || s.dh != 1 || s.dw != 1 || s.kh != s.kw || s.h <= 0 ||
      s.w <= 0)
    return false;
  if (s.kw == 3)  // no window begins behind the image
    return s.kind == Kind::kMax && s.pt == 1 && s.pl == 1 && 2 * (s.oh - 1) <= s.h && 2 * (s.ow - 1) <= s.w;
  return s.kw == 2 && s.pt == 0 && s.pl == 0 && 2 * s.oh <= s.h && 2 * s.ow <= s.w;
}
bool RunWindowPlane(const PoolShape& s, const float* x, int64_t begin, int64_t end, float* y) {
  return OPSNN_TIER_CALL(RunWindowPlaneTier)(s, x, begin, end, y);
}
void StreamLines(const float* from, int64_t n, float* to) { OPSNN_TIER_CALL(StreamLinesTier)(from, n, to); }

}  // namespace opsnn::pool
#endif
