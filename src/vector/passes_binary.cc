#include <utility>

#include "vector/pass.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/passes_binary.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/stages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::PassArgs;
using vector::PassFn;

template <StageOp kOp>
void BinaryPass(const PassArgs& a) {
  RunPass<2>(a, [](DF d, VF x, VF y) HWY_ATTR { return BinaryStage<kOp>(d, x, y); });
}
template <StageOp kOp>
void TernaryPass(const PassArgs& a) {
  RunPass<3>(a, [](DF d, VF x, VF y, VF z) HWY_ATTR { return TernaryStage<kOp>(d, x, y, z); });
}

template <size_t... kOps>
PassFn Lookup(size_t index, std::index_sequence<kOps...>) {
  static constexpr PassFn kTable[] = {
      &BinaryPass<static_cast<StageOp>(kOps + static_cast<size_t>(StageOp::kAdd))>...};
  return kTable[index];
}

}  // namespace

// op in [kAdd, kSelect].
PassFn FindBinary(StageOp op) {
  if (op == StageOp::kMulAdd) return &TernaryPass<StageOp::kMulAdd>;
  if (op == StageOp::kSelect) return &TernaryPass<StageOp::kSelect>;
  constexpr size_t kFirst = static_cast<size_t>(StageOp::kAdd);
  constexpr size_t kCount = static_cast<size_t>(StageOp::kXor) + 1 - kFirst;
  return Lookup(static_cast<size_t>(op) - kFirst, std::make_index_sequence<kCount>());
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "vector/pass_tables.h"
namespace opsnn::vector {
TierPasses BinaryPasses(StageOp op) {
  if (op < StageOp::kAdd || op > StageOp::kSelect) return {};
  OPSNN_TIER_TABLE(FindBinary);
  return CollectTiers(FindBinary_tiers, op);
}
}  // namespace opsnn::vector
#endif
