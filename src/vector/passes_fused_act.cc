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

// The pairs that models have; each costs a loop in every tier, so the list is not a full product.
struct Pair {
  StageOp unary, binary;
};
constexpr Pair kBinUn[] = {  // unary(binary(x, y))
    {kRelu, kAdd},   {kLeakyRelu, kAdd}, {kClip, kAdd}, {kHardSigmoid, kAdd}, {kHardSwish, kAdd},
    {kSilu, kAdd},   {kSigmoid, kAdd},   {kTanh, kAdd}, {kGeluErf, kAdd},     {kGeluTanh, kAdd},
    {kAffine, kAdd}, {kRelu, kMul},      {kClip, kMul}, {kAffine, kMul},      {kSquare, kSub},
    {kExp, kSub},    {kAffine, kSub}};
constexpr Pair kUnBin[] = {  // binary(unary(x), y)
    {kRelu, kMul},   {kClip, kMul},    {kHardSigmoid, kMul}, {kSilu, kMul},      {kSigmoid, kMul},
    {kTanh, kMul},   {kGeluErf, kMul}, {kGeluTanh, kMul},    {kExp, kMul},       {kSquare, kMul},
    {kAffine, kMul}, {kRelu, kAdd},    {kClip, kAdd},        {kHardSwish, kAdd}, {kSilu, kAdd},
    {kTanh, kAdd},   {kSquare, kAdd},  {kAffine, kAdd}};

template <size_t kIndex>
void BinUnPass(const PassArgs& a) {
  const float i0 = a.imm[0], i1 = a.imm[1];
  RunPass<2>(a, [i0, i1](DF d, VF x, VF y) HWY_ATTR {
    return UnaryStage<kBinUn[kIndex].unary>(d, BinaryStage<kBinUn[kIndex].binary>(d, x, y), i0, i1);
  });
}
template <size_t kIndex>
void UnBinPass(const PassArgs& a) {
  const float i0 = a.imm[0], i1 = a.imm[1];
  RunPass<2>(a, [i0, i1](DF d, VF x, VF y) HWY_ATTR {
    return BinaryStage<kUnBin[kIndex].binary>(d, UnaryStage<kUnBin[kIndex].unary>(d, x, i0, i1), y);
  });
}

// A normalisation with known statistics and the activation behind it.
constexpr StageOp kMulAddUn[] = {kRelu, kClip, kHardSwish, kSilu, kSigmoid, kLeakyRelu};

template <size_t kIndex>
void MulAddUnPass(const PassArgs& a) {
  const float i0 = a.imm[0], i1 = a.imm[1];
  RunPass<3>(a, [i0, i1](DF d, VF x, VF y, VF z)
                    HWY_ATTR { return UnaryStage<kMulAddUn[kIndex]>(d, hn::Add(hn::Mul(x, y), z), i0, i1); });
}
template <size_t... kIndex>
PassFn MulAddUnAt(StageOp root, std::index_sequence<kIndex...>) {
  PassFn found = nullptr;
  ((kMulAddUn[kIndex] == root ? void(found = &MulAddUnPass<kIndex>) : void()), ...);
  return found;
}

template <size_t... kIndex>
PassFn BinUnAt(size_t index, std::index_sequence<kIndex...>) {
  static constexpr PassFn kTable[] = {&BinUnPass<kIndex>...};
  return kTable[index];
}
template <size_t... kIndex>
PassFn UnBinAt(size_t index, std::index_sequence<kIndex...>) {
  static constexpr PassFn kTable[] = {&UnBinPass<kIndex>...};
  return kTable[index];
}

template <size_t kCount>
int IndexOf(const Pair (&list)[kCount], StageOp unary, StageOp binary) {
  for (size_t i = 0; i < kCount; ++i) {
    if (list[i].unary == unary && list[i].binary == binary) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

PassFn FindActPass(StageOp unary, StageOp binary, bool unary_first) {
  const int i = unary_first ? IndexOf(kUnBin, unary, binary) : IndexOf(kBinUn, unary, binary);
  if (i < 0) return nullptr;
  constexpr size_t kBinUnCount = sizeof(kBinUn) / sizeof(kBinUn[0]),
                   kUnBinCount = sizeof(kUnBin) / sizeof(kUnBin[0]);
  return unary_first ? UnBinAt(i, std::make_index_sequence<kUnBinCount>())
                     : BinUnAt(i, std::make_index_sequence<kBinUnCount>());
}

PassFn FindMulAddUnPass(StageOp root) {
  return MulAddUnAt(root, std::make_index_sequence<sizeof(kMulAddUn) / sizeof(kMulAddUn[0])>());
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "vector/pass_tables.h"
namespace opsnn::vector {
namespace {
OPSNN_TIER_TABLE(FindActPass);
OPSNN_TIER_TABLE(FindMulAddUnPass);
}  // namespace
TierPasses BinUnPasses(StageOp root, StageOp child) {
  return CollectTiers(FindActPass_tiers, root, child, false);
}
TierPasses MulAddUnPasses(StageOp root) { return CollectTiers(FindMulAddUnPass_tiers, root); }
TierPasses UnBinPasses(StageOp root, StageOp child) {
  return CollectTiers(FindActPass_tiers, child, root, true);
}
}  // namespace opsnn::vector
#endif
