// Fused passes around activations: act(x + y), act(x * y) and act(x) * y, act(x) + y.
#include <utility>

#include "vector/pass.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/passes_fused_act.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/stages-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

using vector::PassArgs;
using vector::PassFn;
using enum StageOp;

constexpr StageOp kBinaries[] = {kAdd, kSub, kMul};
constexpr StageOp kUnaries[] = {kRelu, kLeakyRelu, kClip,     kHardSigmoid, kHardSwish, kSilu,  kSigmoid,
                                kTanh, kGeluErf,   kGeluTanh, kExp,         kSquare,    kAffine};
constexpr size_t kNumBinaries = sizeof(kBinaries) / sizeof(kBinaries[0]);
constexpr size_t kNumUnaries = sizeof(kUnaries) / sizeof(kUnaries[0]);

template <StageOp kUnary, StageOp kBinary>
void BinUnPass(const PassArgs& a) {
  const float i0 = a.imm[0], i1 = a.imm[1];
  RunPass<2>(a, [i0, i1](DF d, VF x, VF y)
                    HWY_ATTR { return UnaryStage<kUnary>(d, BinaryStage<kBinary>(d, x, y), i0, i1); });
}
template <StageOp kUnary, StageOp kBinary>
void UnBinPass(const PassArgs& a) {
  const float i0 = a.imm[0], i1 = a.imm[1];
  RunPass<2>(a, [i0, i1](DF d, VF x, VF y)
                    HWY_ATTR { return BinaryStage<kBinary>(d, UnaryStage<kUnary>(d, x, i0, i1), y); });
}

template <size_t... kIndex>
PassFn Lookup(size_t index, bool unary_first, std::index_sequence<kIndex...>) {
  static constexpr PassFn kBinUn[] = {
      &BinUnPass<kUnaries[kIndex / kNumBinaries], kBinaries[kIndex % kNumBinaries]>...};
  static constexpr PassFn kUnBin[] = {
      &UnBinPass<kUnaries[kIndex / kNumBinaries], kBinaries[kIndex % kNumBinaries]>...};
  return unary_first ? kUnBin[index] : kBinUn[index];
}

template <size_t kCount>
int IndexOf(const StageOp (&list)[kCount], StageOp op) {
  for (size_t i = 0; i < kCount; ++i) {
    if (list[i] == op) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

PassFn FindActPass(StageOp unary, StageOp binary, bool unary_first) {
  const int u = IndexOf(kUnaries, unary), b = IndexOf(kBinaries, binary);
  if (u < 0 || b < 0) return nullptr;
  return Lookup(u * kNumBinaries + b, unary_first, std::make_index_sequence<kNumUnaries * kNumBinaries>());
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "vector/pass_tables.h"
namespace opsnn::vector {
namespace {
OPSNN_TIER_TABLE(FindActPass);
}
TierPasses BinUnPasses(StageOp root, StageOp child) {
  return CollectTiers(FindActPass_tiers, root, child, false);
}
TierPasses UnBinPasses(StageOp root, StageOp child) {
  return CollectTiers(FindActPass_tiers, child, root, true);
}
}  // namespace opsnn::vector
#endif
