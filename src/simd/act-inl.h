// Activations applied to registers: the register epilogue of cube kernels, and the same functions as stages
// of the block interpreter, so that a chain in registers equals the chain in passes bit by bit.
#if defined(OPSNN_SIMD_ACT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_SIMD_ACT_INL_H_
#undef OPSNN_SIMD_ACT_INL_H_
#else
#define OPSNN_SIMD_ACT_INL_H_
#endif

#include "isa/hwy.h"
#include "simd/math-inl.h"
#include "simd/reg_act.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {

// max(x, 0); NaN passes.
template <class D, class V = VecF<D>>
HWY_INLINE V Relu(D d, V x) {
  return hn::Max(hn::Zero(d), x);
}

template <class D, class V = VecF<D>>
HWY_INLINE V LeakyRelu(D d, V x, float slope) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, slope)), x);
}

// clip(a x + b, 0, 1). The product is rounded first, as the separate stages would.
template <class D, class V = VecF<D>>
HWY_INLINE V HardSigmoid(D d, V x, float a, float b) {
  return ClipNan(d, hn::Add(hn::Mul(hn::Set(d, a), x), hn::Set(d, b)), 0.0f, 1.0f);
}
template <class D, class V = VecF<D>>
HWY_INLINE V HardSwish(D d, V x, float a, float b) {
  return hn::Mul(x, HardSigmoid(d, x, a, b));
}

// One activation known at compile time: for loops that must not branch inside.
template <RegAct kAct, class D, class V = VecF<D>>
HWY_INLINE V ApplyActStatic(D d, V x, float imm0, float imm1) {
  (void)imm0, (void)imm1;
  if constexpr (kAct == RegAct::kRelu) return Relu(d, x);
  if constexpr (kAct == RegAct::kClip) return ClipNan(d, x, imm0, imm1);
  if constexpr (kAct == RegAct::kHardSwish) return HardSwish(d, x, imm0, imm1);
  if constexpr (kAct == RegAct::kHardSigmoid) return HardSigmoid(d, x, imm0, imm1);
  if constexpr (kAct == RegAct::kSilu) return Silu(d, x);
  if constexpr (kAct == RegAct::kSigmoid) return Sigmoid(d, x);
  if constexpr (kAct == RegAct::kGeluErf) return GeluErf(d, x);
  if constexpr (kAct == RegAct::kGeluTanh) return GeluTanh(d, x);
  if constexpr (kAct == RegAct::kTanh) return Tanh(d, x);
  if constexpr (kAct == RegAct::kLeakyRelu) return LeakyRelu(d, x, imm0);
  return x;
}

// The same chosen at run time: one well-predicted branch per call, so call it per vector or per small tile.
// imm is Epilogue::act_imm.
template <class D, class V = VecF<D>>
HWY_INLINE V ApplyAct(D d, V x, RegAct act, const float* imm) {
  switch (act) {
    case RegAct::kNone:
      return x;
    case RegAct::kRelu:
      return Relu(d, x);
    case RegAct::kClip:
      return ClipNan(d, x, imm[0], imm[1]);
    case RegAct::kHardSwish:
      return HardSwish(d, x, imm[0], imm[1]);
    case RegAct::kHardSigmoid:
      return HardSigmoid(d, x, imm[0], imm[1]);
    case RegAct::kSilu:
      return Silu(d, x);
    case RegAct::kSigmoid:
      return Sigmoid(d, x);
    case RegAct::kGeluErf:
      return GeluErf(d, x);
    case RegAct::kGeluTanh:
      return GeluTanh(d, x);
    case RegAct::kTanh:
      return Tanh(d, x);
    case RegAct::kLeakyRelu:
      return LeakyRelu(d, x, imm[0]);
  }
  return x;
}

// Calls fn(std::integral_constant<RegAct, a>) for the activation given at run time: one instantiation per
// activation, branch outside the loop. fn needs HWY_ATTR if it is a lambda.
template <class F>
HWY_INLINE void DispatchAct(RegAct act, F&& fn) {
  switch (act) {
    case RegAct::kNone:
      return fn(RegActTag<RegAct::kNone>());
    case RegAct::kRelu:
      return fn(RegActTag<RegAct::kRelu>());
    case RegAct::kClip:
      return fn(RegActTag<RegAct::kClip>());
    case RegAct::kHardSwish:
      return fn(RegActTag<RegAct::kHardSwish>());
    case RegAct::kHardSigmoid:
      return fn(RegActTag<RegAct::kHardSigmoid>());
    case RegAct::kSilu:
      return fn(RegActTag<RegAct::kSilu>());
    case RegAct::kSigmoid:
      return fn(RegActTag<RegAct::kSigmoid>());
    case RegAct::kGeluErf:
      return fn(RegActTag<RegAct::kGeluErf>());
    case RegAct::kGeluTanh:
      return fn(RegActTag<RegAct::kGeluTanh>());
    case RegAct::kTanh:
      return fn(RegActTag<RegAct::kTanh>());
    case RegAct::kLeakyRelu:
      return fn(RegActTag<RegAct::kLeakyRelu>());
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggle
