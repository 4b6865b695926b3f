// f32 functions on Highway vectors, with correct specials (Highway's own ignore them).
//
// Every function takes the tag first, propagates NaN, and treats all lanes alike, so that results do not
// depend on the lane or on the tail. Bounds are in ulp against the exact value, measured by simd/math_test.cc
// over every 1009th float of the range, on every tier.
//
//   Exp, Expm1 1.5   Log 1   Erf 1.5   Tanh 3   Sigmoid 2.5 (0 below -88.3)   Pow 0.51   Sin, Cos 2
//   GeluErf: |error| <= 2.5e-7 |x|, relative error below 5e-4 down to x = -6;  GeluTanh and Silu likewise.
//
// Limits, not NaN, at infinity: Gelu(-inf) = Silu(-inf) = 0.
#if defined(OPSNN_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_MATH_INL_H_
#undef OPSNN_SIMD_MATH_INL_H_
#else
#define OPSNN_SIMD_MATH_INL_H_
#endif

#include "isa/hwy.h"
#include "isa/lookup-inl.h"
#include "simd/gelu_table.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using VecF = hn::Vec<D>;
template <class D>
using TagI = hn::RebindToSigned<D>;

// Horner's rule, highest power first: c0 x^n + c1 x^(n-1) + ...
template <class D, class V = VecF<D>>
HWY_INLINE V Poly(D d, V, float c) {
  return hn::Set(d, c);
}
template <class D, class V = VecF<D>, typename... C>
HWY_INLINE V PolyStep(D d, V x, V acc, float c, C... rest) {
  acc = hn::MulAdd(acc, x, hn::Set(d, c));
  if constexpr (sizeof...(rest) == 0) {
    return acc;
  } else {
    return PolyStep(d, x, acc, rest...);
  }
}
template <class D, class V = VecF<D>, typename... C>
HWY_INLINE V Poly(D d, V x, float c0, float c1, C... rest) {
  return PolyStep(d, x, hn::Set(d, c0), c1, rest...);
}

// Max and Min of x86 return the second operand when either is NaN: with x second, NaN passes through.
template <class D, class V = VecF<D>>
HWY_INLINE V ClipNan(D d, V x, float lo, float hi) {
  return hn::Min(hn::Set(d, hi), hn::Max(hn::Set(d, lo), x));
}
// The greater (lesser) of two, NaN if either is.
template <class D, class V = VecF<D>>
HWY_INLINE V MaxNan(D, V a, V b) {
  return hn::IfThenElse(hn::IsNaN(a), a, hn::Max(a, b));
}
template <class D, class V = VecF<D>>
HWY_INLINE V MinNan(D, V a, V b) {
  return hn::IfThenElse(hn::IsNaN(a), a, hn::Min(a, b));
}

// Adding 1.5 * 2^23 rounds to an integer (to nearest even) and leaves it in the low mantissa bits.
inline constexpr float kRoundMagic = 12582912.0f;
inline constexpr float kLog2E = 1.44269502f;
// ln 2 in two parts; the upper has 15 bits, so that n * kLn2Hi is exact for |n| < 512 even without FMA.
inline constexpr float kLn2Hi = 0x1.62e4p-1f, kLn2Lo = 0x1.7f7d1cp-20f;

// 2^y for y in [-126.5, 128]; above 127.5 the result is Inf, below -126.5 it is 0. Relative error 1.5e-7.
template <class D, class V = VecF<D>>
HWY_INLINE V Exp2Fast(D d, V y) {
  const TagI<D> di;
  // The bias 127 rides along in the magic number; shifting by 23 makes it the exponent field.
  const V magic = hn::Set(d, kRoundMagic + 127.0f);
  const V t = hn::Add(y, magic);
  const V f = hn::Sub(y, hn::Sub(t, magic));
  const V p = Poly(d, f, 0.001326445f, 0.009671725f, 0.055507362f, 0.2402224f, 0.693147f, 1.0f);
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t))));
}

// e^r for |r| <= ln(2)/2, relative error 2^-24.
template <class D, class V = VecF<D>>
HWY_INLINE V ExpReduced(D d, V r) {
  const V q = Poly(d, r, 0.00139506f, 0.008368954f, 0.041666206f, 0.16666518f, 0.5f);
  return hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), hn::Set(d, 1.0f));
}
// r = x - n ln 2 for the integer n nearest to x / ln 2; t is n plus a magic number.
template <class D, class V = VecF<D>>
HWY_INLINE V ReduceLn2(D d, V x, float magic, V& t) {
  t = hn::MulAdd(x, hn::Set(d, kLog2E), hn::Set(d, magic));
  const V n = hn::Sub(t, hn::Set(d, magic));
  return hn::NegMulAdd(n, hn::Set(d, kLn2Lo), hn::NegMulAdd(n, hn::Set(d, kLn2Hi), x));
}

// e^x where results above 2^127.5 may become Inf and results below 2^-126 stop there: enough for sigmoids.
template <class D, class V = VecF<D>>
HWY_INLINE V ExpFast(D d, V x) {
  const TagI<D> di;
  V t;
  const V r = ReduceLn2(d, ClipNan(d, x, -87.33f, 89.0f), kRoundMagic + 127.0f, t);
  return hn::Mul(ExpReduced(d, r), hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t))));
}

// e^x over the whole range, subnormal results included.
template <class D, class V = VecF<D>>
HWY_INLINE V Exp(D d, V x) {
  const TagI<D> di;
  V t;
  const V r = ReduceLn2(d, ClipNan(d, x, -104.0f, 89.0f), kRoundMagic, t);
  // 2^n in two factors: n = -150 .. 128 does not fit one exponent field.
  const auto n = hn::Sub(hn::BitCast(di, t), hn::Set(di, 0x4B400000));
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const V s1 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V s2 = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  return hn::Mul(hn::Mul(ExpReduced(d, r), s1), s2);
}

// e^x - 1 without cancellation; saturates to -1 below and to Inf above 88.3.
template <class D, class V = VecF<D>>
HWY_INLINE V Expm1(D d, V x) {
  const TagI<D> di;
  V t;
  const V r = ReduceLn2(d, ClipNan(d, x, -30.0f, 89.0f), kRoundMagic + 127.0f, t);
  const V s = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t)));
  const V q = Poly(d, r, 0.00019909813f, 0.0013933397f, 0.008333282f, 0.04166648f, 0.16666667f);
  const V r2 = hn::Mul(r, r);
  const V em1 = hn::Add(r, hn::MulAdd(hn::Mul(q, r), r2, hn::Mul(hn::Set(d, 0.5f), r2)));
  return hn::MulAdd(em1, s, hn::Sub(s, hn::Set(d, 1.0f)));
}

// Natural logarithm: Log(0) = -Inf, Log(x < 0) = NaN, subnormals exact.
template <class D, class V = VecF<D>>
HWY_INLINE V Log(D d, V x) {
  const TagI<D> di;
  const auto subnormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 0x1p23f)), x);
  // Subtracting sqrt(1/2) makes the exponent field change there: m is in [sqrt(1/2), sqrt(2)).
  const auto kSqrtHalf = hn::Set(di, 0x3F3504F3);
  const auto shifted = hn::Sub(hn::BitCast(di, scaled), kSqrtHalf);
  V e = hn::ConvertTo(d, hn::ShiftRight<23>(shifted));
  e = hn::IfThenElse(subnormal, hn::Sub(e, hn::Set(d, 23.0f)), e);
  const auto mantissa = hn::Add(hn::And(shifted, hn::Set(di, 0x007FFFFF)), kSqrtHalf);
  const V f = hn::Sub(hn::BitCast(d, mantissa), hn::Set(d, 1.0f));
  const V f2 = hn::Mul(f, f);
  const V p = Poly(d, f, 0.06915125f, -0.11789685f, 0.1187302f, -0.12384372f, 0.14218655f, -0.1666925f,
                   0.20002227f, -0.24999987f, 0.3333331f);
  V y = hn::MulAdd(hn::Mul(p, f), f2, hn::Mul(e, hn::Set(d, kLn2Lo)));
  y = hn::NegMulAdd(hn::Set(d, 0.5f), f2, y);
  y = hn::MulAdd(e, hn::Set(d, kLn2Hi), hn::Add(f, y));
  const V inf = hn::Set(d, __builtin_inff());
  y = hn::IfThenElse(hn::Lt(x, inf), y, x);  // +Inf and NaN
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, __builtin_nanf("")), y);
}

// log(1 + e) for e >= 0 (Kahan: the rounding error of 1 + e is divided out).
template <class D, class V = VecF<D>>
HWY_INLINE V Log1pNonNegative(D d, V e) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, e);
  const V y = hn::Mul(Log(d, u), hn::Div(e, hn::Sub(u, one)));
  return hn::IfThenElse(hn::Or(hn::Eq(u, one), hn::IsNaN(e)), e, y);
}

// erf(x): an odd polynomial below 1, 1 - 2^P(|x|) above.
template <class D, class V = VecF<D>>
HWY_INLINE V Erf(D d, V x) {
  const V a = hn::Min(hn::Set(d, 4.0f), hn::Abs(x));
  const V u = hn::Mul(x, x);
  const V small = hn::MulAdd(x,
                             Poly(d, u, 7.889119e-05f, -0.0008020841f, 0.005189535f, -0.026854444f, 0.112836f,
                                  -0.37612626f, 0.12837917f),
                             x);
  const V large =
      hn::Sub(hn::Set(d, 1.0f), Exp2Fast(d, Poly(d, a, 0.00027628336f, -0.0043274346f, 0.03181435f,
                                                 -0.14941554f, -0.91986233f, -1.6265321f, -0.00036995986f)));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 1.0f)), small, hn::CopySign(large, x));
}

template <class D, class V = VecF<D>>
HWY_INLINE V Tanh(D d, V x) {
  // tanh(a) = m / (m + 2), m = e^(2a) - 1; 1 to the last bit from 9.02 on. NaN passes (a is second in Min).
  const V a = hn::Min(hn::Set(d, 9.1f), hn::Abs(x));
  const V m = Expm1(d, hn::Add(a, a));
  return hn::CopySign(hn::Div(m, hn::Add(m, hn::Set(d, 2.0f))), x);
}

template <class D, class V = VecF<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, ExpFast(d, hn::Neg(x))));
}

// x / (1 + e^-x). -Inf is lifted to the lowest finite value: the limit is 0, not -Inf / Inf.
template <class D, class V = VecF<D>>
HWY_INLINE V Silu(D d, V x) {
  const V finite = hn::Max(hn::Set(d, -0x1.fffffep127f), x);
  return hn::Div(finite, hn::Add(hn::Set(d, 1.0f), ExpFast(d, hn::Neg(x))));
}

// x Phi(x) = max(x, 0) - |x| Phi(-|x|) for the Phi of a table (gelu_table.h): 16 instructions in short
// chains.
template <class D, class V = VecF<D>>
HWY_INLINE V GeluFromTable(D d, V x, const float (&table)[kGeluPowers][kGeluIntervals], float width) {
  const V t = hn::Min(hn::Set(d, width * (kGeluIntervals - 1)), hn::Abs(x));
  const V magic = hn::Set(d, kRoundMagic);
  const V index = hn::MulAdd(t, hn::Set(d, 1.0f / width), magic);
  const V f = hn::NegMulAdd(hn::Sub(index, magic), hn::Set(d, width), t);
  V y = Lookup32(d, table[0], index);
#pragma GCC unroll 4
  for (int i = 1; i < kGeluPowers; ++i) y = hn::MulAdd(y, f, Lookup32(d, table[i], index));
  return hn::NegMulAdd(t, y, hn::Max(hn::Zero(d), x));
}

// Without a table log2 Phi(-t) is a polynomial of degree 8: no division, and the negative tail keeps its
// relative accuracy, which 0.5 x (1 + erf) loses. 22 instructions.
template <class D, class V = VecF<D>>
HWY_INLINE V GeluErf(D d, V x) {
  if constexpr (HasLookup32(D())) return GeluFromTable(d, x, kGeluErfTable, kGeluErfWidth);
  // At t = 12.5 the exponent is below -127 and 2^y is exactly 0; beyond, t must stay finite.
  const V t = hn::Min(hn::Set(d, 12.5f), hn::Abs(x));
  const V y = Poly(d, t, -7.8683263e-07f, 1.3549618e-05f, -5.7599285e-05f, -0.00046079684f, 0.0075020343f,
                   -0.052807994f, -0.4591047f, -1.1511166f, -1.0f);
  const V tail = Exp2Fast(d, hn::Max(hn::Set(d, -127.0f), y));
  return hn::NegMulAdd(t, tail, hn::Max(hn::Zero(d), x));
}

// x / (1 + 2^(x (a + b x^2))): 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) rewritten.
template <class D, class V = VecF<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  if constexpr (HasLookup32(D())) return GeluFromTable(d, x, kGeluTanhTable, kGeluTanhWidth);
  const V c = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.10294324f), hn::Set(d, -2.3022082f));
  const V e = Exp2Fast(d, ClipNan(d, hn::Mul(x, c), -126.0f, 128.0f));
  return hn::Div(hn::Max(hn::Set(d, -0x1.fffffep127f), x), hn::Add(hn::Set(d, 1.0f), e));
}

template <class D, class V = VecF<D>>
HWY_INLINE V Elu(D d, V x, float alpha) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(hn::Set(d, alpha), Expm1(d, x)), x);
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|).
template <class D, class V = VecF<D>>
HWY_INLINE V Softplus(D d, V x) {
  return hn::Add(hn::Max(hn::Zero(d), x), Log1pNonNegative(d, Exp(d, hn::Neg(hn::Abs(x)))));
}

// x tanh(softplus(x)) = x (n^2 + 2n) / (n^2 + 2n + 2), n = e^x; from 20 on the quotient is 1.
template <class D, class V = VecF<D>>
HWY_INLINE V Mish(D d, V x) {
  const V n = ExpFast(d, hn::Min(hn::Set(d, 20.0f), x));
  const V w = hn::Mul(n, hn::Add(n, hn::Set(d, 2.0f)));
  const V finite = hn::Max(hn::Set(d, -0x1.fffffep127f), x);
  const V y = hn::Mul(finite, hn::Div(w, hn::Add(w, hn::Set(d, 2.0f))));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Zero(d), y);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
