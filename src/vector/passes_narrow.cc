// Cheap stages in vectors of 32 bytes, for AVX-512 and operands beyond L1. Bare loops of them move an eighth
// more from L2 to L2 than vectors of 64 do, as much as rep movs; here a sum gains a fifteenth, and results
// that are not in a cache a tenth and more, as their lines are asked for ahead. And cheap stages of two
// operands whose results are written past the caches.
#include "isa/tier.h"
#include "vector/pass.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/passes_narrow.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/stages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::PassArgs;
using vector::PassFn;

template <StageOp kOp, int kArity, class D>
HWY_INLINE void Narrow(D d, const PassArgs& a, const float* x, const float* w, size_t at, float* y) {
  const auto v = hn::LoadU(d, x + at);
  if constexpr (kArity == 1)
    hn::StoreU(UnaryStage<kOp>(d, v, a.imm[0], a.imm[1]), d, y + at);
  else
    hn::StoreU(BinaryStage<kOp>(d, v, hn::LoadU(d, w + at)), d, y + at);
}

// One row of operands that all walk along it.
template <StageOp kOp, int kArity>
void NarrowPass(const PassArgs& a) {
  const hn::CappedTag<float, 8> d;
  const hn::CappedTag<float, 1> d1;
  constexpr size_t kVector = hn::MaxLanes(d), kGroup = 4 * kVector, kLine = 64 / sizeof(float);
  constexpr size_t kAhead = 512;  // 2 KiB: stores, too, wait for their lines
  const float *const x = static_cast<const float*>(a.src[0].data), *const w = static_cast<const float*>(
                                                                       a.src[kArity - 1].data);
  float* const y = static_cast<float*>(a.dst);
  const auto n = static_cast<size_t>(a.cols);
  size_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    for (size_t k = 0; k < kGroup; k += kLine) hwy::Prefetch(y + i + kAhead + k);
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; ++k) Narrow<kOp, kArity>(d, a, x, w, i + k * kVector, y);
  }
  for (; i < n; ++i) Narrow<kOp, kArity>(d1, a, x, w, i, y);
}

// Two operands and a result that is written past the caches. Both are asked for a little ahead: three streams
// at once, which may fall into the same banks of memory, are more than prefetchers keep apart (without: 0.8
// to 0.95 of the bandwidth).
template <StageOp kOp>
void StreamPass(const PassArgs& a) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  constexpr size_t kVector = hn::MaxLanes(d), kGroup = 4 * kVector, kLine = 64 / sizeof(float), kAhead = 256;
  const float *const x = static_cast<const float*>(a.src[0].data), *const w = static_cast<const float*>(
                                                                       a.src[1].data);
  float* const y = static_cast<float*>(a.dst);
  const auto n = static_cast<size_t>(a.cols);
  size_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(y + i) % (kVector * sizeof(float)) != 0; ++i)
    Narrow<kOp, 2>(d1, a, x, w, i, y);
  for (; i + kGroup <= n; i += kGroup) {
    for (size_t k = 0; k < kGroup; k += kLine)
      hwy::Prefetch(x + i + kAhead + k), hwy::Prefetch(w + i + kAhead + k);
#pragma GCC unroll 4
    for (size_t k = i; k < i + kGroup; k += kVector)
      hn::Stream(BinaryStage<kOp>(d, hn::LoadU(d, x + k), hn::LoadU(d, w + k)), d, y + k);
  }
  for (; i < n; ++i) Narrow<kOp, 2>(d1, a, x, w, i, y);
}

}  // namespace

PassFn FindStream(StageOp op) {
  switch (op) {
#define OPSNN_STREAM(id) \
  case StageOp::id:      \
    return &StreamPass<StageOp::id>
    OPSNN_STREAM(kAdd);
    OPSNN_STREAM(kSub);
    OPSNN_STREAM(kMul);
    OPSNN_STREAM(kMax);
    OPSNN_STREAM(kMin);
#undef OPSNN_STREAM
    default:
      return nullptr;
  }
}

PassFn FindNarrow(StageOp op) {
  switch (op) {
#define OPSNN_NARROW(id, arity) \
  case StageOp::id:             \
    return &NarrowPass<StageOp::id, arity>
    OPSNN_NARROW(kCopy, 1);
    OPSNN_NARROW(kNeg, 1);
    OPSNN_NARROW(kAbs, 1);
    OPSNN_NARROW(kRelu, 1);
    OPSNN_NARROW(kLeakyRelu, 1);
    OPSNN_NARROW(kClip, 1);
    OPSNN_NARROW(kAffine, 1);
    OPSNN_NARROW(kAdd, 2);
    OPSNN_NARROW(kSub, 2);
    OPSNN_NARROW(kMul, 2);
    OPSNN_NARROW(kMax, 2);
    OPSNN_NARROW(kMin, 2);
#undef OPSNN_NARROW
    default:
      return nullptr;
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "vector/flat.h"
#include "vector/pass_tables.h"
namespace opsnn::vector {
OPSNN_TIER_TABLE(FindNarrow);
OPSNN_TIER_TABLE(FindStream);
PassFn FindStreamPass(StageOp op) { return OPSNN_TIER_CALL(FindStream)(op); }
PassFn FindNarrowPass(StageOp op) {
  return isa::ActiveTier() == isa::Tier::kAvx512 ? OPSNN_TIER_CALL(FindNarrow)(op) : nullptr;
}
}  // namespace opsnn::vector
#endif
