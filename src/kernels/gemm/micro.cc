// Blocks of f32 products.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/micro.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#define OPSNN_BLOCK_ATTR
#include "kernels/gemm/block-inl.h"
#undef OPSNN_BLOCK_ATTR

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct MultiplyAdd {
  static HWY_INLINE V MulAdd(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
};
void MacroBlockKernel(const BlockArgs& g) { RunBlock<MultiplyAdd>(g); }

constexpr MicroTile kTile{kMr, kNr};
MicroTile TileKernel() { return kTile; }

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(MacroBlockKernel);
OPSNN_TIER_TABLE(TileKernel);
void MacroBlock(const BlockArgs& args) { OPSNN_TIER_CALL(MacroBlockKernel)(args); }
MicroTile TileFor(isa::Tier tier) { return TileKernel_tiers[static_cast<int>(tier)](); }
}  // namespace opsnn::gemm
#endif
