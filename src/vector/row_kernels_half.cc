// Row templates on f16 and bf16.
#include "vector/row_template.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/row_kernels_half.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/row_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
void RowsF16(const RowArgs& a) { RunRows<F16>(a); }
void RowsBF16(const RowArgs& a) { RunRows<BF16>(a); }
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RowsF16);
OPSNN_TIER_TABLE(RowsBF16);
void RunHalfRowTemplate(const RowArgs& a) {
  if (a.type == DType::kF16) return OPSNN_TIER_CALL(RowsF16)(a);
  if (a.kind.family != RowFamily::kSoftmax || !isa::HasBf16()) return OPSNN_TIER_CALL(RowsBF16)(a);
  for (int64_t r = 0; r < a.rows; ++r) {
    if (RunBf16SoftmaxRow(a, r)) continue;
    RowArgs one = a;
    one.rows = 1;
    one.x = static_cast<const BF16*>(a.x) + r * a.x_stride;
    one.y = static_cast<BF16*>(a.y) + r * a.y_stride;
    OPSNN_TIER_CALL(RowsBF16)(one);
  }
}
}  // namespace opsnn::vector
#endif
