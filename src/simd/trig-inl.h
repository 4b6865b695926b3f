// Tangent, the hyperbolic functions and the inverses of both, in f32. Bounds in ulp, measured by
// simd/trig_test.cc:
//
//   Tan, Sinh, Cosh 4.5   Asin, Acos, Atan 3   Asinh, Acosh, Atanh 4
//
// NaN outside the domain: Asin and Acos beyond [-1, 1], Acosh below 1, Atanh beyond [-1, 1]; Atanh(+-1) is
// +-Inf. Odd functions keep the sign of zero. The polynomials are minimax fits of our own.
#if defined(OPSNN_SIMD_TRIG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_TRIG_INL_H_
#undef OPSNN_SIMD_TRIG_INL_H_
#else
#define OPSNN_SIMD_TRIG_INL_H_
#endif

#include "simd/math-inl.h"
#include "simd/pow-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

// pi/2 as the sum of two floats: what is subtracted from it loses half an ulp only.
inline constexpr float kPiOver2Hi = 0x1.921fb6p0f, kPiOver2Lo = -0x1.777a5cp-25f;

template <class D, class V = VecF<D>>
HWY_INLINE V Tan(D d, V x) {
  return hn::Div(Sin(d, x), Cos(d, x));
}

// e^a / 2 for a >= 0: as a square, so that it overflows where sinh and cosh do and not before.
template <class D, class V = VecF<D>>
HWY_INLINE V HalfExp(D d, V a) {
  const V half = hn::Set(d, 0.5f), t = Exp(d, hn::Mul(a, half));
  return hn::Mul(hn::Mul(half, t), t);
}

template <class D, class V = VecF<D>>
HWY_INLINE V Sinh(D d, V x) {
  const V a = hn::Abs(x), z = hn::Mul(x, x);
  const V small = hn::MulAdd(hn::Mul(a, z),
                             Poly(d, z, 2.80628092e-06f, 0.000198381022f, 0.00833333936f, 0.166666672f), a);
  const V y = HalfExp(d, a);
  const V large = hn::Sub(y, hn::Div(hn::Set(d, 0.25f), y));
  return hn::CopySign(hn::IfThenElse(hn::Lt(a, hn::Set(d, 1.0f)), small, large), x);
}

template <class D, class V = VecF<D>>
HWY_INLINE V Cosh(D d, V x) {
  const V y = HalfExp(d, hn::Abs(x));
  return hn::Add(y, hn::Div(hn::Set(d, 0.25f), y));
}

// asin(s) for s in [0, 1/2], z = s * s.
template <class D, class V = VecF<D>>
HWY_INLINE V AsinCore(D d, V s, V z) {
  return hn::MulAdd(
      hn::Mul(s, z),
      Poly(d, z, 0.0339187533f, 0.0170073938f, 0.0311315153f, 0.0445966683f, 0.0750010312f, 0.166666657f), s);
}

// Above 1/2: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)), whose square root is exact enough near 1.
template <class D, class V = VecF<D>>
HWY_INLINE V Asin(D d, V x) {
  const V a = hn::Abs(x), half = hn::Set(d, 0.5f);
  const auto large = hn::Gt(a, half);
  const V far = hn::NegMulAdd(half, a, half);
  const V z = hn::IfThenElse(large, far, hn::Mul(a, a));
  const V r = AsinCore(d, hn::IfThenElse(large, hn::Sqrt(far), a), z);
  const V back = hn::Sub(hn::Set(d, kPiOver2Hi), hn::Sub(hn::Add(r, r), hn::Set(d, kPiOver2Lo)));
  return hn::CopySign(hn::IfThenElse(large, back, r), x);
}

template <class D, class V = VecF<D>>
HWY_INLINE V Acos(D d, V x) {
  const V a = hn::Abs(x), half = hn::Set(d, 0.5f), hi = hn::Set(d, kPiOver2Hi), lo = hn::Set(d, kPiOver2Lo);
  const auto large = hn::Gt(a, half);
  const V far = hn::NegMulAdd(half, a, half);
  const V z = hn::IfThenElse(large, far, hn::Mul(a, a));
  const V r = AsinCore(d, hn::IfThenElse(large, hn::Sqrt(far), a), z);
  const auto negative = hn::Lt(x, hn::Zero(d));
  const V near = hn::Sub(hi, hn::Sub(hn::IfThenElse(negative, hn::Neg(r), r), lo));
  const V twice = hn::Add(r, r);
  const V reflected = hn::Sub(hn::Add(hi, hi), hn::Sub(twice, hn::Add(lo, lo)));
  return hn::IfThenElse(large, hn::IfThenElse(negative, reflected, twice), near);
}

// Reduced to [0, tan(pi/8)] by atan(a) = pi/2 - atan(1/a) and atan(t) = pi/4 + atan((t - 1) / (t + 1)).
template <class D, class V = VecF<D>>
HWY_INLINE V Atan(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto inverted = hn::Gt(a, one);
  const V t = hn::IfThenElse(inverted, hn::Div(one, a), a);
  const auto shifted = hn::Gt(t, hn::Set(d, 0.41421356f));
  const V u = hn::IfThenElse(shifted, hn::Div(hn::Sub(t, one), hn::Add(t, one)), t);
  const V z = hn::Mul(u, u);
  V r = hn::MulAdd(hn::Mul(u, z),
                   Poly(d, z, -0.0646683872f, 0.107488595f, -0.142645076f, 0.199995592f, -0.333333313f), u);
  const V half = hn::Set(d, 0.5f), hi = hn::Set(d, kPiOver2Hi), lo = hn::Set(d, kPiOver2Lo);
  r = hn::IfThenElse(shifted, hn::MulAdd(half, hi, hn::MulAdd(half, lo, r)), r);
  r = hn::IfThenElse(inverted, hn::Sub(hi, hn::Sub(r, lo)), r);
  return hn::CopySign(hn::IfThenElse(hn::IsNaN(x), x, r), x);
}

// log(1 + e) for e >= 0, Inf included; NaN below -1.
template <class D, class V = VecF<D>>
HWY_INLINE V Log1p(D d, V e) {
  const V inf = hn::Set(d, __builtin_inff());
  return hn::IfThenElse(hn::Eq(e, inf), e, Log1pNonNegative(d, e));
}

// Where squares overflow log(2 a) is exact to the last bit.
template <class D, class V = VecF<D>>
HWY_INLINE V LogTwice(D d, V a) {
  return hn::Add(Log(d, a), hn::Set(d, 0x1.62e43p-1f));
}

template <class D, class V = VecF<D>>
HWY_INLINE V Asinh(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto large = hn::Gt(a, hn::Set(d, 0x1p30f));
  const V z = hn::Mul(a, a);
  const V e = hn::Add(a, hn::Div(z, hn::Add(one, hn::Sqrt(hn::Add(z, one)))));
  return hn::CopySign(hn::IfThenElse(large, LogTwice(d, a), Log1p(d, e)), x);
}

template <class D, class V = VecF<D>>
HWY_INLINE V Acosh(D d, V x) {
  const V t = hn::Sub(x, hn::Set(d, 1.0f));
  const auto large = hn::Gt(x, hn::Set(d, 0x1p30f));
  const V e = hn::Add(t, hn::Sqrt(hn::MulAdd(t, t, hn::Add(t, t))));
  const V y = hn::IfThenElse(large, LogTwice(d, x), Log1p(d, e));
  return hn::IfThenElse(hn::Lt(t, hn::Zero(d)), hn::Set(d, __builtin_nanf("")), y);
}

template <class D, class V = VecF<D>>
HWY_INLINE V Atanh(D d, V x) {
  const V a = hn::Abs(x), one = hn::Set(d, 1.0f);
  const V y = hn::Mul(hn::Set(d, 0.5f), Log1p(d, hn::Div(hn::Add(a, a), hn::Sub(one, a))));
  return hn::CopySign(hn::IfThenElse(hn::Gt(a, one), hn::Set(d, __builtin_nanf("")), y), x);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
