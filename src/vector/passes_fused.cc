// Fused passes of cheap arithmetic: root(child(x, y), z) and scale-shift. See passes_fused_act.cc for
// activations.
#include <utility>

#include "vector/pass.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/passes_fused.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/stages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::PassArgs;
using vector::PassFn;

constexpr StageOp kArithmetic[] = {StageOp::kAdd, StageOp::kSub, StageOp::kMul, StageOp::kDiv};
constexpr size_t kNumArithmetic = sizeof(kArithmetic) / sizeof(kArithmetic[0]);

template <StageOp kRoot, StageOp kChild>
void BinBinPass(const PassArgs& a) {
  RunPass<3>(a, [](DF d, VF x, VF y, VF z)
                    HWY_ATTR { return BinaryStage<kRoot>(d, BinaryStage<kChild>(d, x, y), z); });
}

template <size_t... kIndex>
PassFn Lookup(size_t index, std::index_sequence<kIndex...>) {
  static constexpr PassFn kTable[] = {
      &BinBinPass<kArithmetic[kIndex / kNumArithmetic], kArithmetic[kIndex % kNumArithmetic]>...};
  return kTable[index];
}

int IndexOf(StageOp op) {
  for (size_t i = 0; i < kNumArithmetic; ++i) {
    if (kArithmetic[i] == op) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

PassFn FindBinBin(StageOp root, StageOp child) {
  const int r = IndexOf(root), c = IndexOf(child);
  if (r < 0 || c < 0) return nullptr;
  return Lookup(r * kNumArithmetic + c, std::make_index_sequence<kNumArithmetic * kNumArithmetic>());
}

void ScaleShiftPass(const PassArgs& a) {
  RunPass<4>(a, [](DF, VF x, VF y, VF z, VF w) HWY_ATTR { return hn::Add(hn::Mul(hn::Mul(x, y), z), w); });
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "vector/pass_tables.h"
namespace opsnn::vector {
TierPasses BinBinPasses(StageOp root, StageOp child) {
  OPSNN_TIER_TABLE(FindBinBin);
  return CollectTiers(FindBinBin_tiers, root, child);
}
TierPasses ScaleShiftPasses() {
  OPSNN_TIER_TABLE(ScaleShiftPass);
  TierPasses t;
  constexpr size_t kTiers = sizeof(ScaleShiftPass_tiers) / sizeof(ScaleShiftPass_tiers[0]);
  for (size_t i = 0; i < 3; ++i) t.fn[i] = ScaleShiftPass_tiers[i < kTiers ? i : kTiers - 1];
  return t;
}
}  // namespace opsnn::vector
#endif
