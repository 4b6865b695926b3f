// Functions that need more than f32 inside: Pow, Sin, Cos go through f64 vectors, rare arguments through
// libm.
#if defined(OPSNN_SIMD_POW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_POW_INL_H_
#undef OPSNN_SIMD_POW_INL_H_
#else
#define OPSNN_SIMD_POW_INL_H_
#endif

#include <cmath>

#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

template <class D>
using TagD = hn::Repartition<double, D>;  // full vectors of f64: half of D's lanes each

// Replaces the lanes of y where mask is set by fn(a, b).
template <class D, class M, class V = VecF<D>>
HWY_NOINLINE V FixLanes(D d, V y, M mask, V a, V b, float (*fn)(float, float)) {
  HWY_ALIGN float av[hn::MaxLanes(d)], bv[hn::MaxLanes(d)], yv[hn::MaxLanes(d)], mv[hn::MaxLanes(d)];
  hn::Store(a, d, av), hn::Store(b, d, bv), hn::Store(y, d, yv);
  hn::Store(hn::IfThenElseZero(mask, hn::Set(d, 1.0f)), d, mv);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (mv[i] != 0) yv[i] = fn(av[i], bv[i]);
  }
  return hn::Load(d, yv);
}

// 2^(y log2 x) for x > 0, both finite. log2 to 2^-43 and 2^f to 4e-11: the f32 result is off by 0.501 ulp.
template <class DD, class V = hn::Vec<DD>>
HWY_INLINE V PowPositive(DD d, V x, V y) {
  const hn::RebindToUnsigned<DD> du;
  const auto sqrt_half = hn::Set(du, 0x3FE6A09E667F3BCDull);
  const auto shifted =
      hn::Add(hn::BitCast(du, x), hn::Set(du, 0x3FF0000000000000ull - 0x3FE6A09E667F3BCDull));
  // The exponent as a double: placed in the mantissa of 2^52, whose value is subtracted.
  const auto field = hn::Or(hn::ShiftRight<52>(shifted), hn::Set(du, 0x4330000000000000ull));
  const V e = hn::Sub(hn::BitCast(d, field), hn::Set(d, 4503599627370496.0 + 1023.0));
  const auto mantissa = hn::Add(hn::And(shifted, hn::Set(du, 0x000FFFFFFFFFFFFFull)), sqrt_half);
  const V m = hn::BitCast(d, mantissa);
  const V one = hn::Set(d, 1.0);
  const V s = hn::Div(hn::Sub(m, one), hn::Add(m, one));
  const V u = hn::Mul(s, s);
  auto c = [d](double v) HWY_ATTR { return hn::Set(d, v); };
  V p = hn::MulAdd(c(0.2829064365616262), u, c(0.3199052363115777));
  p = hn::MulAdd(p, u, c(0.4122092643057652));
  p = hn::MulAdd(p, u, c(0.5770779422338566));
  p = hn::MulAdd(p, u, c(0.9617966941139054));
  p = hn::MulAdd(p, u, c(2.8853900817778495));
  V t = hn::Mul(y, hn::MulAdd(p, s, e));
  t = hn::Min(c(200.0), hn::Max(c(-200.0), t));
  const V magic = c(6755399441055744.0 + 1023.0);
  const V r = hn::Add(t, magic);
  const V f = hn::Sub(t, hn::Sub(r, magic));
  V q = hn::MulAdd(c(1.531645143185904e-05), f, c(0.00015469731669164727));
  q = hn::MulAdd(q, f, c(0.0013333422689937127));
  q = hn::MulAdd(q, f, c(0.009618025604103969));
  q = hn::MulAdd(q, f, c(0.05550410976053782));
  q = hn::MulAdd(q, f, c(0.2402265121358472));
  q = hn::MulAdd(q, f, c(0.6931471805350433));
  q = hn::MulAdd(q, f, c(0.9999999999595498));
  return hn::Mul(q, hn::BitCast(d, hn::ShiftLeft<52>(hn::BitCast(du, r))));
}

// pow(x, y) with the specials of C's pow.
template <class D, class V = VecF<D>>
HWY_INLINE V Pow(D d, V x, V y) {
  const TagD<D> dd;
  const hn::Half<D> dh;
  const V inf = hn::Set(d, __builtin_inff());
  const auto usual = hn::And(hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, inf)), hn::Lt(hn::Abs(y), inf));
  const V xs = hn::IfThenElse(usual, x, hn::Set(d, 1.0f));
  const V ys = hn::IfThenElseZero(usual, y);
  const auto lo =
      PowPositive(dd, hn::PromoteTo(dd, hn::LowerHalf(dh, xs)), hn::PromoteTo(dd, hn::LowerHalf(dh, ys)));
  const auto hi =
      PowPositive(dd, hn::PromoteTo(dd, hn::UpperHalf(dh, xs)), hn::PromoteTo(dd, hn::UpperHalf(dh, ys)));
  const V p = hn::Combine(d, hn::DemoteTo(dh, hi), hn::DemoteTo(dh, lo));
  if (HWY_LIKELY(hn::AllTrue(d, usual))) return p;
  return FixLanes(d, p, hn::Not(usual), x, y, [](float a, float b) { return std::pow(a, b); });
}

// The argument minus the nearest multiple n of pi/2, and n mod 4. Exact to f32 for |x| < 2^28.
template <class D, class V = VecF<D>>
HWY_INLINE V ReducePiOver2(D d, V x, V& quadrant) {
  const TagD<D> dd;
  const hn::Half<D> dh;
  using VD = hn::Vec<decltype(dd)>;
  auto reduce = [dd](VD v, VD& q) HWY_ATTR {
    const VD n = hn::Round(hn::Mul(v, hn::Set(dd, 0.63661977236758134308)));
    q = hn::Sub(n, hn::Mul(hn::Set(dd, 4.0), hn::Floor(hn::Mul(n, hn::Set(dd, 0.25)))));
    // pi/2 in two parts; the upper has 24 bits, so that n * upper is exact for n < 2^28.
    const VD r = hn::Sub(v, hn::Mul(n, hn::Set(dd, 1.57079637050628662109375)));
    return hn::Add(r, hn::Mul(n, hn::Set(dd, 4.371139000186241e-08)));
  };
  VD q_lo, q_hi;
  const VD lo = reduce(hn::PromoteTo(dd, hn::LowerHalf(dh, x)), q_lo);
  const VD hi = reduce(hn::PromoteTo(dd, hn::UpperHalf(dh, x)), q_hi);
  quadrant = hn::Combine(d, hn::DemoteTo(dh, q_hi), hn::DemoteTo(dh, q_lo));
  return hn::Combine(d, hn::DemoteTo(dh, hi), hn::DemoteTo(dh, lo));
}

// sin(x + shift * pi/2) for |x| < 2^28, shift 0 or 1.
template <class D, class V = VecF<D>>
HWY_INLINE V SinShifted(D d, V x, float shift) {
  V q;
  const V r = ReducePiOver2(d, x, q);
  const V u = hn::Mul(r, r);
  const V sine = hn::MulAdd(hn::Mul(r, u), Poly(d, u, -0.00019517298f, 0.008332178f, -0.16666655f), r);
  const V cosine = hn::MulAdd(hn::Mul(u, u), Poly(d, u, 2.443845e-05f, -0.0013887368f, 0.041666646f),
                              hn::MulAdd(u, hn::Set(d, -0.5f), hn::Set(d, 1.0f)));
  q = hn::Add(q, hn::Set(d, shift));
  const V half = hn::Floor(hn::Mul(q, hn::Set(d, 0.5f)));  // 0, 1 or 2: odd means negative
  const auto odd = hn::Eq(hn::Sub(q, hn::Add(half, half)), hn::Set(d, 1.0f));
  const V y = hn::IfThenElse(odd, cosine, sine);
  return hn::IfThenElse(hn::Eq(half, hn::Set(d, 1.0f)), hn::Neg(y), y);
}
template <class D, class V = VecF<D>>
HWY_INLINE V Sin(D d, V x) {
  const auto usual = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p28f));
  const V y = SinShifted(d, hn::IfThenElseZero(usual, x), 0.0f);
  const V signed_zero = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);
  if (HWY_LIKELY(hn::AllTrue(d, usual))) return signed_zero;
  return FixLanes(d, signed_zero, hn::Not(usual), x, x, [](float a, float) { return std::sin(a); });
}
template <class D, class V = VecF<D>>
HWY_INLINE V Cos(D d, V x) {
  const auto usual = hn::Lt(hn::Abs(x), hn::Set(d, 0x1p28f));
  const V y = SinShifted(d, hn::IfThenElseZero(usual, x), 1.0f);
  if (HWY_LIKELY(hn::AllTrue(d, usual))) return y;
  return FixLanes(d, y, hn::Not(usual), x, x, [](float a, float) { return std::cos(a); });
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
