// Wide tiles of f32 products.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/wide.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#define OPSNN_BLOCK_ATTR
#include "kernels/gemm/wide-inl.h"
#undef OPSNN_BLOCK_ATTR

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct WideMultiplyAdd {
  static HWY_INLINE V MulAdd(V a, V b, V sum) { return hn::MulAdd(a, b, sum); }
};
void WideBlockKernel(const BlockArgs& g) { RunWide<WideMultiplyAdd>(g); }

// Rows of such a tile; 0: this tier has none.
int64_t WideRowsKernel() { return kHasWide ? kWideRows : 0; }

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(WideBlockKernel);
OPSNN_TIER_TABLE(WideRowsKernel);
void WideBlock(const BlockArgs& args) { OPSNN_TIER_CALL(WideBlockKernel)(args); }
int64_t WideRows() { return OPSNN_TIER_CALL(WideRowsKernel)(); }
}  // namespace opsnn::gemm
#endif
