// Row templates on f32.
#include "vector/row_template.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/row_kernels.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "vector/row_kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
void RowsF32(const RowArgs& a) { RunRows<float>(a); }
}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(RowsF32);
void RunRowTemplate(const RowArgs& a) {
  if (a.type == DType::kF32) return OPSNN_TIER_CALL(RowsF32)(a);
  a.type == DType::kF16 ? RunF16RowTemplate(a) : RunBf16RowTemplate(a);
}
}  // namespace opsnn::vector
#endif
