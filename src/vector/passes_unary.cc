#include <utility>

#include "vector/pass.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/passes_unary.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/stages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::PassArgs;
using vector::PassFn;

template <StageOp kOp>
void UnaryPass(const PassArgs& a) {
  const float i0 = a.imm[0], i1 = a.imm[1];
  RunPass<1>(a, [i0, i1](DF d, VF x) HWY_ATTR { return UnaryStage<kOp>(d, x, i0, i1); });
}

template <size_t... kOps>
PassFn Lookup(size_t op, std::index_sequence<kOps...>) {
  static constexpr PassFn kTable[] = {&UnaryPass<static_cast<StageOp>(kOps)>...};
  return kTable[op];
}

}  // namespace

// op in [kCopy, kIsInf].
PassFn FindUnary(StageOp op) {
  constexpr size_t kCount = static_cast<size_t>(StageOp::kIsInf) + 1;
  return Lookup(static_cast<size_t>(op), std::make_index_sequence<kCount>());
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "vector/pass_tables.h"
namespace opsnn::vector {
TierPasses UnaryPasses(StageOp op) {
  if (op > StageOp::kIsInf) return {};
  OPSNN_TIER_TABLE(FindUnary);
  return CollectTiers(FindUnary_tiers, op);
}
}  // namespace opsnn::vector
#endif
