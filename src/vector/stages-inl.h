// The f32 stage functions: what each StageOp does to vectors. Shared by passes, fused passes and row
// templates.
#if defined(OPSNN_VECTOR_STAGES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_VECTOR_STAGES_INL_H_
#undef OPSNN_VECTOR_STAGES_INL_H_
#else
#define OPSNN_VECTOR_STAGES_INL_H_
#endif

#include "simd/act-inl.h"
#include "simd/exp-inl.h"
#include "simd/pow-inl.h"
#include "simd/trig-inl.h"
#include "vector/bit_stages.h"
#include "vector/pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

template <class D, class V = VecF<D>>
HWY_INLINE V BoolToF32(D d, hn::Mask<D> m) {
  return hn::IfThenElseZero(m, hn::Set(d, 1.0f));
}
// NaN counts as true: it is not equal to zero.
template <class D, class V = VecF<D>>
HWY_INLINE hn::Mask<D> IsTrue(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));
}

template <StageOp kOp, class D, class V = VecF<D>>
HWY_INLINE V UnaryStage(D d, V x, float imm0, float imm1) {
  using enum StageOp;
  (void)imm0, (void)imm1;
  const V one = hn::Set(d, 1.0f);
  if constexpr (kOp == kCopy) return x;
  if constexpr (kOp == kNeg) return hn::Neg(x);
  if constexpr (kOp == kAbs) return hn::Abs(x);
  if constexpr (kOp == kSign) {
    return hn::IfThenElse(hn::Or(hn::Eq(x, hn::Zero(d)), hn::IsNaN(x)), x, hn::CopySign(one, x));
  }
  if constexpr (kOp == kSquare) return hn::Mul(x, x);
  if constexpr (kOp == kReciprocal) return hn::Div(one, x);
  if constexpr (kOp == kSqrt) return hn::Sqrt(x);
  if constexpr (kOp == kRsqrt) return hn::Div(one, hn::Sqrt(x));
  if constexpr (kOp == kExp) return ExpUsual(d, x);
  if constexpr (kOp == kLog) return Log(d, x);
  if constexpr (kOp == kErf) return Erf(d, x);
  if constexpr (kOp == kTanh) return Tanh(d, x);
  if constexpr (kOp == kSigmoid) return Sigmoid(d, x);
  if constexpr (kOp == kSilu) return Silu(d, x);
  if constexpr (kOp == kGeluErf) return GeluErf(d, x);
  if constexpr (kOp == kGeluTanh) return GeluTanh(d, x);
  if constexpr (kOp == kRelu) return Relu(d, x);
  if constexpr (kOp == kLeakyRelu) return LeakyRelu(d, x, imm0);
  if constexpr (kOp == kClip) return ClipNan(d, x, imm0, imm1);
  if constexpr (kOp == kHardSigmoid) return HardSigmoid(d, x, imm0, imm1);
  if constexpr (kOp == kHardSwish) return HardSwish(d, x, imm0, imm1);
  if constexpr (kOp == kElu) return Elu(d, x, imm0);
  if constexpr (kOp == kSoftplus) return Softplus(d, x);
  if constexpr (kOp == kMish) return Mish(d, x);
  if constexpr (kOp == kFloor) return hn::Floor(x);
  if constexpr (kOp == kCeil) return hn::Ceil(x);
  if constexpr (kOp == kRound) return hn::Round(x);
  if constexpr (kOp == kTrunc) return hn::Trunc(x);
  if constexpr (kOp == kSin) return Sin(d, x);
  if constexpr (kOp == kCos) return Cos(d, x);
  if constexpr (kOp == kTan) return Tan(d, x);
  if constexpr (kOp == kAsin) return Asin(d, x);
  if constexpr (kOp == kAcos) return Acos(d, x);
  if constexpr (kOp == kAtan) return Atan(d, x);
  if constexpr (kOp == kSinh) return Sinh(d, x);
  if constexpr (kOp == kCosh) return Cosh(d, x);
  if constexpr (kOp == kAsinh) return Asinh(d, x);
  if constexpr (kOp == kAcosh) return Acosh(d, x);
  if constexpr (kOp == kAtanh) return Atanh(d, x);
  if constexpr (kOp == kAffine) return hn::Add(hn::Mul(hn::Set(d, imm0), x), hn::Set(d, imm1));
  if constexpr (kOp == kNot) return BoolToF32(d, hn::Eq(x, hn::Zero(d)));
  if constexpr (kOp == kIsNan) return BoolToF32(d, hn::IsNaN(x));
  if constexpr (kOp == kIsInf) return BoolToF32(d, hn::Eq(hn::Abs(x), hn::Set(d, __builtin_inff())));
}

template <StageOp kOp, class D, class V = VecF<D>>
HWY_INLINE V BinaryStage(D d, V x, V y) {
  using enum StageOp;
  if constexpr (kOp == kAdd) return hn::Add(x, y);
  if constexpr (kOp == kSub) return hn::Sub(x, y);
  if constexpr (kOp == kMul) return hn::Mul(x, y);
  if constexpr (kOp == kDiv) return hn::Div(x, y);
  if constexpr (kOp == kPow) return Pow(d, x, y);
  if constexpr (kOp == kMax) return MaxNan(d, x, y);
  if constexpr (kOp == kMin) return MinNan(d, x, y);
  if constexpr (kOp == kMod) {
    return FixLanes(d, x, hn::Eq(hn::Zero(d), hn::Zero(d)), x, y,
                    [](float a, float b) { return std::fmod(a, b); });
  }
  // Integers compute in integers; the f32 form is for completeness and takes lane by lane.
  if constexpr (kOp >= kBitAnd && kOp <= kShiftRight) {
    return FixLanes(d, x, hn::Eq(hn::Zero(d), hn::Zero(d)), x, y,
                    [](float a, float b) { return static_cast<float>(vector::BitStage(kOp, a, b)); });
  }
  if constexpr (kOp == kPRelu) return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), x, hn::Mul(y, x));
  if constexpr (kOp == kEqual) return BoolToF32(d, hn::Eq(x, y));
  if constexpr (kOp == kLess) return BoolToF32(d, hn::Lt(x, y));
  if constexpr (kOp == kLessEqual) return BoolToF32(d, hn::Le(x, y));
  if constexpr (kOp == kGreater) return BoolToF32(d, hn::Lt(y, x));
  if constexpr (kOp == kGreaterEqual) return BoolToF32(d, hn::Le(y, x));
  if constexpr (kOp == kAnd) return BoolToF32(d, hn::And(IsTrue(d, x), IsTrue(d, y)));
  if constexpr (kOp == kOr) return BoolToF32(d, hn::Or(IsTrue(d, x), IsTrue(d, y)));
  if constexpr (kOp == kXor) return BoolToF32(d, hn::Xor(IsTrue(d, x), IsTrue(d, y)));
}

template <StageOp kOp, class D, class V = VecF<D>>
HWY_INLINE V TernaryStage(D d, V x, V y, V z) {
  if constexpr (kOp == StageOp::kMulAdd) return hn::Add(hn::Mul(x, y), z);
  if constexpr (kOp == StageOp::kSelect) return hn::IfThenElse(IsTrue(d, x), y, z);
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
