// Row templates on f16.
#include "vector/row_template.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/row_kernels_f16.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/row_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
void RowsF16(const RowArgs& a) { RunRows<F16>(a); }
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RowsF16);
void RunF16RowTemplate(const RowArgs& a) { OPSNN_TIER_CALL(RowsF16)(a); }
}  // namespace opsnn::vector
#endif
