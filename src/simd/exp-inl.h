// Exp with a short way for vectors whose results are all normal: the same bits with a third fewer
// instructions. For softmax rows and passes, where a branch per vector is cheap; register epilogues use the
// straight-line form.
#if defined(OPSNN_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_EXP_INL_H_
#undef OPSNN_SIMD_EXP_INL_H_
#else
#define OPSNN_SIMD_EXP_INL_H_
#endif

#include "simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

template <class D, class V = VecF<D>>
HWY_INLINE V ExpUsual(D d, V x) {
  const TagI<D> di;
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, 87.0f))))) {
    // Results that round to zero are masked entries of an attention, by the thousand: kept out of Exp, whose
    // products would underflow, which costs some 150 cycles a vector on x86.
    const auto zero = hn::Le(x, hn::Set(d, -104.0f));
    return hn::IfThenZeroElse(zero, Exp(d, hn::IfThenZeroElse(zero, x)));
  }
  V t;  // scaling by one power of two is exact here, as the two of Exp are
  const V r = ReduceLn2(d, x, kRoundMagic + 127.0f, t);
  return hn::Mul(ExpReduced(d, r), hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, t))));
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
