#include "vector/half_unary.h"

#include <algorithm>

#include "isa/cpuid.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/half_unary.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/element-inl.h"
#include "vector/stages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::HalfUnary;

constexpr size_t kAhead = 1024;       // elements, 2 KiB
constexpr size_t kStep = 2 * kLanes;  // one vector of halves

// How many values come before the first aligned vector of y, where it is streamed.
template <typename T>
HWY_INLINE size_t HeadOf(const T* y, size_t n, bool stream) {
  const size_t misplaced = reinterpret_cast<uintptr_t>(y) % HWY_MAX_BYTES / sizeof(T);
  return stream ? std::min(n, (kStep - misplaced) % kStep) : 0;
}

template <typename T, StageOp kOp>
struct Computed {
  static HWY_INLINE VF Of(VF v) { return UnaryStage<kOp>(DF(), v, 0, 0); }
  static HWY_INLINE void Few(const T* x, T* y, size_t n) {
    const DF d;
    for (; n >= kLanes; n -= kLanes, x += kLanes, y += kLanes) Put(d, Of(Get(d, x)), y);
    if (n > 0) PutTail(d, Of(GetTail(d, x, n)), y, n);
  }
  template <bool kPast>
  static HWY_INLINE void Step(const T* x, T* y) {
    const DF d;
    PutTwo<kPast, false>(d, Of(Get(d, x)), Of(Get(d, x + kLanes)), y);
  }
};

// bf16 where the processor rounds (AVX512-BF16), which takes subnormals for zero: steps with a value whose
// result could be one round otherwise. Results are about x / 2 near zero (a sigmoid is not) and fall like e^x
// below (GELU is 0 before it is subnormal).
template <StageOp kOp>
struct RoundedByCpu {
  using Usual = Computed<BF16, kOp>;
  using DU = hn::Repartition<uint16_t, DF>;
  static HWY_INLINE bool MayBeSubnormal(hn::Vec<DU> bits) {
    constexpr uint16_t kTwoToMinus124 = 3 << 7, kMinus80 = 0xC2A0;
    const DU d;
    const auto less_one = hn::Sub(hn::And(bits, hn::Set(d, 0x7FFF)), hn::Set(d, 1));  // so that 0 is large
    const auto tiny = hn::Lt(less_one, hn::Set(d, kTwoToMinus124 - 1));
    const auto low = hn::Gt(bits, hn::Set(d, kMinus80));
    if constexpr (kOp == StageOp::kSigmoid) return !hn::AllFalse(d, low);
    if constexpr (kOp == StageOp::kSilu) return !hn::AllFalse(d, hn::Or(tiny, low));
    return !hn::AllFalse(d, tiny);
  }
  static HWY_INLINE void Few(const BF16* x, BF16* y, size_t n) { Usual::Few(x, y, n); }
  template <bool kPast>
  static HWY_INLINE void Step(const BF16* x, BF16* y) {
    const DF d;
    if (HWY_UNLIKELY(MayBeSubnormal(hn::LoadU(DU(), reinterpret_cast<const uint16_t*>(x)))))
      return Usual::template Step<kPast>(x, y);
    VF even, odd;
    GetAlternating<true>(d, x, even, odd);
    PutAlternating<kPast, Rounding::kNative>(d, Usual::Of(even), Usual::Of(odd), y);
  }
};

// Relu on the bits. As signed integers, negative numbers but -0 lie from -32767 to that of -Inf, 32768 below
// the bits of Inf; NaN of either sign are outside and become quiet.
template <typename T>
struct ReluBits {
  static constexpr int16_t kInf = std::is_same_v<T, BF16> ? 0x7F80 : 0x7C00;
  static constexpr int16_t kQuiet = std::is_same_v<T, BF16> ? 0x40 : 0x200;
  using DI = hn::Repartition<int16_t, DF>;
  static HWY_INLINE hn::Vec<DI> Of(hn::Vec<DI> v) {
    const DI d;
    const auto negative = hn::Lt(hn::Sub(v, hn::Set(d, 1)), hn::Set(d, static_cast<int16_t>(kInf - 0x8000)));
    const auto nan = hn::Gt(hn::And(v, hn::Set(d, 0x7FFF)), hn::Set(d, kInf));
    return hn::IfThenZeroElse(negative, hn::Or(v, hn::IfThenElseZero(nan, hn::Set(d, kQuiet))));
  }
  static HWY_INLINE void Few(const T* x, T* y, size_t n) {
    HWY_ALIGN T bits[kStep] = {};
    for (size_t i = 0; i < n; ++i) bits[i] = x[i];
    Step<false>(bits, bits);
    for (size_t i = 0; i < n; ++i) y[i] = bits[i];
  }
  template <bool kPast>
  static HWY_INLINE void Step(const T* x, T* y) {
    const DI d;
    const auto v = Of(hn::LoadU(d, reinterpret_cast<const int16_t*>(x)));
    auto* const to = reinterpret_cast<int16_t*>(y);
    kPast ? hn::Stream(v, d, to) : hn::StoreU(v, d, to);
  }
};

template <typename T, class F>
HWY_INLINE void Run(const HalfUnary& a) {
  const auto* x = static_cast<const T*>(a.x);
  auto* y = static_cast<T*>(a.y);
  auto n = static_cast<size_t>(a.n);
  const bool past = a.stream && reinterpret_cast<uintptr_t>(y) % sizeof(T) == 0;
  if (const size_t head = HeadOf(y, n, past)) F::Few(x, y, head), x += head, y += head, n -= head;
  for (; n >= kStep; n -= kStep, x += kStep, y += kStep) {
    hwy::Prefetch(x + kAhead);
    if (!past) hwy::Prefetch(y + kAhead);
    past ? F::template Step<true>(x, y) : F::template Step<false>(x, y);
  }
  if (n > 0) F::Few(x, y, n);
}

template <typename T, StageOp kOp>
HWY_NOINLINE void RunComputed(const HalfUnary& a) {
  if constexpr (std::is_same_v<T, BF16> && kMayPackBf16) {
    if (isa::HasBf16Moves()) return Run<T, RoundedByCpu<kOp>>(a);
  }
  Run<T, Computed<T, kOp>>(a);
}

template <typename T>
HWY_INLINE void RunOf(const HalfUnary& a) {
  switch (a.op) {
    case StageOp::kRelu:
      return Run<T, ReluBits<T>>(a);
    case StageOp::kGeluErf:
      return RunComputed<T, StageOp::kGeluErf>(a);
    case StageOp::kGeluTanh:
      return RunComputed<T, StageOp::kGeluTanh>(a);
    case StageOp::kSilu:
      return RunComputed<T, StageOp::kSilu>(a);
    default:
      return RunComputed<T, StageOp::kSigmoid>(a);
  }
}

}  // namespace

void RunHalfUnaryTier(const HalfUnary& a) { a.type == DType::kF16 ? RunOf<F16>(a) : RunOf<BF16>(a); }

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RunHalfUnaryTier);
bool HasHalfUnary(StageOp op) {
  using enum StageOp;
  return op == kRelu || op == kGeluErf || op == kGeluTanh || op == kSilu || op == kSigmoid;
}
void RunHalfUnary(const HalfUnary& a) { OPSNN_TIER_CALL(RunHalfUnaryTier)(a); }
}  // namespace opsnn::vector
#endif
