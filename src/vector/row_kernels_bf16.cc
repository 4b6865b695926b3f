// Row templates on bf16.
#include "vector/row_template.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/row_kernels_bf16.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/row_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
void RowsBF16(const RowArgs& a) { RunRows<BF16>(a); }
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RowsBF16);
void RunBf16RowTemplate(const RowArgs& a) {
  if (a.kind.family != RowFamily::kSoftmax || !isa::HasBf16()) return OPSNN_TIER_CALL(RowsBF16)(a);
  for (int64_t r = 0; r < a.rows; ++r) {
    r = RunBf16SoftmaxRows(a, r);
    if (r == a.rows) return;
    RowArgs one = a;
    one.rows = 1;
    one.x = static_cast<const BF16*>(a.x) + r * a.x_stride;
    one.y = static_cast<BF16*>(a.y) + r * a.y_stride;
    OPSNN_TIER_CALL(RowsBF16)(one);
  }
}
}  // namespace opsnn::vector
#endif
