// The exponential of passes and rows, where a branch per vector and a table in registers are cheap; register
// epilogues use the straight-line form of math-inl.h. Bound: 1.5 ulp, as there.
#if defined(OPSNN_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_EXP_INL_H_
#undef OPSNN_SIMD_EXP_INL_H_
#else
#define OPSNN_SIMD_EXP_INL_H_
#endif

#include "simd/exp_table.h"
#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

// x = k ln 2 / 32 + r with |r| <= ln 2 / 64: e^x is 2^(k / 32), of which a table has the fractional part,
// times e^r, for which three powers do (the fourth is below 2^-30). Two instructions less than a polynomial
// for a whole doubling, in shorter chains.
//
// Adding this rounds to a step and leaves k in the low bits: 1.5 * 2^23 steps.
inline constexpr float kExpMagic = kRoundMagic / kExpSteps;
// e^r times s.
template <class D, class V = VecF<D>>
HWY_INLINE V TimesExpOfRest(D d, V s, V r) {
  const V p = hn::MulAdd(hn::MulAdd(r, hn::Set(d, 0.16666667f), hn::Set(d, 0.5f)), r, hn::Set(d, 1.0f));
  return hn::MulAdd(s, hn::Mul(r, p), s);
}

// e^x for |x| < 87, where neither the result nor its scale is subnormal: the bits of ExpWide.
template <class D, class V = VecF<D>>
HWY_INLINE V ExpNormal(D d, V x) {
  const TagI<D> di;
  V t;
  if constexpr (HasLookup32(D())) {
    const V r = ReduceLn2(d, x, kExpMagic, t);
    const V entry = Lookup32(d, kExpTable.entry, t);
    const auto k = hn::ShiftLeft<kExpShift>(hn::BitCast(di, t));
    return TimesExpOfRest(d, hn::BitCast(d, hn::Add(hn::BitCast(di, entry), k)), r);
  } else {  // scaling by one power of two is exact here, as the two of Exp are
    const V r = ReduceLn2(d, x, kRoundMagic + 127.0f, t);
    return hn::Mul(ExpReduced(d, r), hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t))));
  }
}

// e^x over the whole range, subnormal results included.
template <class D, class V = VecF<D>>
HWY_INLINE V ExpWide(D d, V x) {
  if constexpr (!HasLookup32(D())) return Exp(d, x);
  const TagI<D> di;
  V t;
  const V r = ReduceLn2(d, ClipNan(d, x, -104.0f, 89.0f), kExpMagic, t);
  const auto k = hn::Sub(hn::BitCast(di, t), hn::BitCast(di, hn::Set(d, kExpMagic)));
  const auto n = hn::ShiftRight<kExpStepBits>(k);
  const auto step = hn::ShiftLeft<kExpShift>(hn::And(k, hn::Set(di, kExpSteps - 1)));
  const V entry = Lookup32(d, kExpTable.entry, t);
  const V e = TimesExpOfRest(d, hn::BitCast(d, hn::Add(hn::BitCast(di, entry), step)), r);
  // 2^n in two factors, as in Exp.
  const auto half = hn::ShiftRight<1>(n);
  const auto power = [&](auto m)
                         HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(m, hn::Set(di, 127)))); };
  return hn::Mul(hn::Mul(e, power(half)), power(hn::Sub(n, half)));
}

template <class D, class V = VecF<D>>
HWY_INLINE V ExpUsual(D d, V x) {
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, 87.0f))))) {
    // Results that round to zero are masked entries of an attention, by the thousand: kept out of ExpWide,
    // whose products would underflow, which costs some 150 cycles a vector on x86.
    const auto zero = hn::Le(x, hn::Set(d, -104.0f));
    return hn::IfThenZeroElse(zero, ExpWide(d, hn::IfThenZeroElse(zero, x)));
  }
  return ExpNormal(d, x);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
