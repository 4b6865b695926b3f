// Row reductions in a fixed order that depends on the row length only: vector i of a chunk goes to
// accumulator i mod 4, the tail to the last one; chunks are merged in f64. So threads, block sizes and
// execution modes all give the same bits, and the error grows with the chunk, not with the row.
#if defined(OPSNN_VECTOR_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_REDUCE_INL_H_
#undef OPSNN_VECTOR_REDUCE_INL_H_
#else
#define OPSNN_VECTOR_REDUCE_INL_H_
#endif

#include "simd/exp-inl.h"
#include "vector/pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

// A chunk of this many elements is summed in f32: 64 additions per lane and accumulator under AVX-512.
inline constexpr size_t kReduceChunk = 4096;

struct SumReduction {
  static constexpr float kInit = 0.0f;
  static HWY_INLINE VF Step(DF, VF acc, VF x) { return hn::Add(acc, x); }
  static HWY_INLINE double Lanes(DF d, VF acc) { return hn::GetLane(hn::SumOfLanes(d, acc)); }
  static HWY_INLINE double Merge(double a, double b) { return a + b; }
};
// NaN sticks: Max returns its second operand when either is NaN, so only a NaN in x needs the select.
struct MaxReduction {
  static constexpr float kInit = -__builtin_inff();
  static HWY_INLINE VF Step(DF, VF acc, VF x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, acc)); }
  static HWY_INLINE double Lanes(DF d, VF acc) {
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(acc)))) return __builtin_nan("");
    return hn::GetLane(hn::MaxOfLanes(d, acc));
  }
  static HWY_INLINE double Merge(double a, double b) { return a != a || a > b ? a : b; }
};
struct MinReduction {
  static constexpr float kInit = __builtin_inff();
  static HWY_INLINE VF Step(DF, VF acc, VF x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(x, acc)); }
  static HWY_INLINE double Lanes(DF d, VF acc) {
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(acc)))) return __builtin_nan("");
    return hn::GetLane(hn::MinOfLanes(d, acc));
  }
  static HWY_INLINE double Merge(double a, double b) { return a != a || a < b ? a : b; }
};
struct ProdReduction {
  static constexpr float kInit = 1.0f;
  static HWY_INLINE VF Step(DF, VF acc, VF x) { return hn::Mul(acc, x); }
  static HWY_INLINE double Lanes(DF d, VF acc) {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(acc, d, lanes);
    double product = 1;
    for (float v : lanes) product *= v;
    return product;
  }
  static HWY_INLINE double Merge(double a, double b) { return a * b; }
};

// g.Whole(i) gives the vector at element i, g.Tail(i, n) the n < kLanes last values (lanes behind are
// ignored). Both may store as a side effect; each element is asked for once, in order.
template <class R, class G>
HWY_INLINE double ReduceChunk(DF d, size_t begin, size_t end, G& g) {
  VF a0 = hn::Set(d, R::kInit), a1 = a0, a2 = a0, a3 = a0;
  size_t i = begin;
  for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
    g.Group();
    a0 = R::Step(d, a0, g.Whole(i));
    a1 = R::Step(d, a1, g.Whole(i + kLanes));
    a2 = R::Step(d, a2, g.Whole(i + 2 * kLanes));
    a3 = R::Step(d, a3, g.Whole(i + 3 * kLanes));
  }
  // The accumulators take turns, so that g, which may be long, is compiled once for what is left.
#pragma GCC unroll 1
  for (size_t k = 0; k < 3; ++k) {
    VF turn = a0;
    if (i + kLanes <= end) turn = R::Step(d, turn, g.Whole(i)), i += kLanes;
    a0 = a1, a1 = a2, a2 = turn;
  }
  if (i < end) {
    const VF tail = g.Tail(i, end - i);
    a3 = R::Step(d, a3, hn::IfThenElse(hn::FirstN(d, end - i), tail, hn::Set(d, R::kInit)));
  }
  return R::Lanes(d, R::Step(d, R::Step(d, a0, a1), R::Step(d, a2, a3)));
}
template <class R, class G>
HWY_INLINE double ReduceRow(DF d, size_t n, G& g) {
  double total = static_cast<double>(R::kInit);
  for (size_t c = 0; c < n; c += kReduceChunk) {
    total = R::Merge(total, ReduceChunk<R>(d, c, HWY_MIN(c + kReduceChunk, n), g));
  }
  return total;
}

// sum g^2, and sum g in *sum: what the reductions of the two give, in one pass.
template <class G>
HWY_INLINE double SumSquaresRow(DF d, size_t n, G& g, double* sum) {
  using R = SumReduction;
  double squares = 0;
  *sum = 0;
  for (size_t c = 0; c < n; c += kReduceChunk) {
    const size_t end = HWY_MIN(c + kReduceChunk, n);
    VF s[4], q[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) s[k] = q[k] = hn::Zero(d);
    auto step = [&](int k, VF v) HWY_ATTR {
      s[k] = R::Step(d, s[k], v);
      q[k] = R::Step(d, q[k], hn::Mul(v, v));
    };
    size_t i = c;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      g.Group();
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) step(k, g.Whole(i + static_cast<size_t>(k) * kLanes));
    }
    if (i + kLanes <= end) step(0, g.Whole(i)), i += kLanes;
    if (i + kLanes <= end) step(1, g.Whole(i)), i += kLanes;
    if (i + kLanes <= end) step(2, g.Whole(i)), i += kLanes;
    if (i < end) step(3, hn::IfThenElseZero(hn::FirstN(d, end - i), g.Tail(i, end - i)));
    *sum += R::Lanes(d, R::Step(d, R::Step(d, s[0], s[1]), R::Step(d, s[2], s[3])));
    squares += R::Lanes(d, R::Step(d, R::Step(d, q[0], q[1]), R::Step(d, q[2], q[3])));
  }
  return squares;
}

HWY_INLINE float MeanOf(double sum, size_t n) { return static_cast<float>(sum / static_cast<double>(n)); }

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
