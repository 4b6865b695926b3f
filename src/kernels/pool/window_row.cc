#include "kernels/pool/window_row.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool/window_row.cc"
#include "isa/cache.h"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::pool::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());
constexpr float kLowest = -std::numeric_limits<float>::infinity();

inline size_t Lanes(int64_t n) { return static_cast<size_t>(std::clamp<int64_t>(n, 0, kLanes)); }

template <Kind kKind>
HWY_INLINE V Combine(V a, V b) {
  if constexpr (kKind == Kind::kAverage) return hn::Add(a, b);
  return hn::Max(a, b);
}

// What changes nothing.
template <Kind kKind>
constexpr float Neutral() {
  return kKind == Kind::kMax ? kLowest : 0;
}

// Columns [col, col + kLanes) of a row of w; those outside are what changes nothing.
template <Kind kKind>
HWY_INLINE V Columns(const float* row, int64_t col, int64_t w) {
  const D d;
  constexpr float kNeutral = Neutral<kKind>();
  const V neutral = hn::Set(d, kNeutral);
  if constexpr (kLanes == 4) {  // SSE4 has no masked load
    HWY_ALIGN float lanes[kLanes];
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = col + l >= 0 && col + l < w ? row[col + l] : kNeutral;
    return hn::Load(d, lanes);
  } else {
    const auto inside = hn::AndNot(hn::FirstN(d, Lanes(-col)), hn::FirstN(d, Lanes(w - col)));
    return hn::IfThenElse(inside, hn::MaskedLoad(inside, d, row + col), neutral);
  }
}

// The maxima or sums down the columns. Beside maxima, a sum of all values seen, which a NaN leaves NaN: plain
// maxima drop it.
template <Kind kKind>
class Scan {
 public:
  explicit HWY_INLINE Scan(const WindowRow& r) : r_(r), sum_(hn::Zero(D())), other_(hn::Zero(D())) {}
  // Columns of the windows at o: of stride 2, the even and the odd ones.
  template <int kStride>
  HWY_INLINE void Read(int64_t o, V& even, V& odd) {
    const D d;
    const int64_t col = o * kStride - r_.pad;
    Fetch<kStride>(col);
    const V a = Inside(col) ? Down<true>(col, sum_) : Down<false>(col, sum_);
    if constexpr (kStride == 1) {
      even = a;
    } else {
      const int64_t more = col + kLanes;
      const V b = Inside(more) ? Down<true>(more, other_) : Down<false>(more, other_);
      even = hn::ConcatEven(d, b, a), odd = hn::ConcatOdd(d, b, a);
    }
  }
  HWY_INLINE bool SawNan() const {
    const D d;
    return !hn::AllFalse(d, hn::IsNaN(hn::Add(sum_, other_)));
  }

 private:
  HWY_INLINE bool Inside(int64_t col) const { return col >= 0 && col + kLanes <= r_.w; }
  // Loads that cross lines wait for both where they are not in L1 yet.
  template <int kStride>
  HWY_INLINE void Fetch(int64_t col) const {
    constexpr int64_t kAhead = 1024, kLine = 64 / sizeof(float);  // 4 KiB, some windows further down
    for (int64_t row = 0; row < r_.fresh; ++row) {
      for (int64_t at = 0; at < kStride * kLanes; at += kLine)
        hwy::Prefetch(r_.x + row * r_.distance + col + at + kAhead);
    }
  }
  template <bool kWhole>
  HWY_INLINE V Get(int64_t row, int64_t col) const {
    const float* p = r_.x + row * r_.distance;
    if constexpr (kWhole) return hn::LoadU(D(), p + col);
    return Columns<kKind>(p, col, r_.w);
  }
  template <bool kWhole>
  HWY_INLINE V Down(int64_t col, V& sum) const {
    if (!kWhole && (col >= r_.w || col + kLanes <= 0)) return hn::Set(D(), Neutral<kKind>());
    V most = Get<kWhole>(0, col), all = most;
    for (int64_t row = 1; row < r_.rows; ++row) {
      const V v = Get<kWhole>(row, col);
      most = Combine<kKind>(most, v);
      if constexpr (kKind == Kind::kMax) all = hn::Add(all, v);
    }
    if constexpr (kKind == Kind::kMax) sum = hn::Add(sum, all);
    return most;
  }

  const WindowRow& r_;
  V sum_, other_;
};

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

// Lane l of a rotation by kBy is lane l + kBy. A table: one that is written for each row would be waited for.
template <int kBy>
struct Rotation {
  HWY_ALIGN int32_t from[kLanes] = {};
  constexpr Rotation() {
    for (int64_t l = 0; l < kLanes; ++l) from[l] = static_cast<int32_t>((l + kBy) % kLanes);
  }
};
template <int kBy>
HWY_INLINE auto RotateBy() {
  static constexpr Rotation<kBy> kTable;
  return hn::SetTableIndices(D(), kTable.from);
}

// Windows of stride 2 take even and odd columns; the third column is the next even one. Of stride 1, the
// columns behind. A step of one lane over the border of a vector is a rotation of both and a blend.
template <Kind kKind, int kStride, int kKernel>
bool Row(const WindowRow& r) {
  const D d;
  const auto by_one = RotateBy<1>(), by_two = RotateBy<2>();
  const auto but_one = hn::FirstN(d, kLanes - 1), but_two = hn::FirstN(d, kLanes - 2);
  Scan<kKind> scan(r);
  V even, odd, one, two;  // of the vector at hand; rotated
  odd = two = hn::Zero(d);
  scan.template Read<kStride>(0, even, odd);
  one = hn::TableLookupLanes(even, by_one);
  if constexpr (kStride == 1 && kKernel == 3) two = hn::TableLookupLanes(even, by_two);
  for (int64_t o = 0; o < r.n; o += kLanes) {
    V next = even, next_odd = odd;
    constexpr bool kLooksAhead = kStride == 1 || kKernel == 3;
    if (kLooksAhead || o + kLanes < r.n) scan.template Read<kStride>(o + kLanes, next, next_odd);
    V most = kStride == 1 ? even : Combine<kKind>(even, odd);
    if constexpr (kLooksAhead) {
      const V next_one = hn::TableLookupLanes(next, by_one);
      most = Combine<kKind>(most, hn::IfThenElse(but_one, one, next_one));
      one = next_one;
    }
    if constexpr (kStride == 1 && kKernel == 3) {
      const V next_two = hn::TableLookupLanes(next, by_two);
      most = Combine<kKind>(most, hn::IfThenElse(but_two, two, next_two));
      two = next_two;
    }
    // There is room for a whole vector of scales.
    if constexpr (kKind == Kind::kAverage) most = hn::Mul(most, hn::LoadU(d, r.scale + o));
    constexpr int64_t kAhead = 256;  // 1 KiB, some rows: stores that wait for their lines hold up all others
    hwy::Prefetch(r.y + o + kAhead);
    Put(most, r.y + o, r.n - o);
    even = next, odd = next_odd;
  }
  return kKind == Kind::kAverage || !scan.SawNan();
}

template <Kind kKind>
HWY_INLINE bool RowOf(const WindowRow& r) {
  if (r.stride == 1) return r.kernel == 2 ? Row<kKind, 1, 2>(r) : Row<kKind, 1, 3>(r);
  return r.kernel == 2 ? Row<kKind, 2, 2>(r) : Row<kKind, 2, 3>(r);
}
bool RunWindowRowTier(const WindowRow& r) {
  return r.kind == Kind::kMax ? RowOf<Kind::kMax>(r) : RowOf<Kind::kAverage>(r);
}

}  // namespace opsnn::pool::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::pool {

OPSNN_TIER_TABLE(RunWindowRowTier);

bool FitsWindowRow(const PoolShape& s) {
  return (s.kw == 2 || s.kw == 3) && (s.sw == 1 || s.sw == 2) && s.dw == 1;
}
bool RunWindowRow(const WindowRow& r) { return OPSNN_TIER_CALL(RunWindowRowTier)(r); }

}  // namespace opsnn::pool
#endif
