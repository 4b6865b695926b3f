#include "kernels/conv/act_pass.h"

#include <cstring>
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/act_pass.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "simd/act-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void ActPassTier(RegAct act, const float* imm, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(::opsnn::HWY_NAMESPACE::ApplyAct(d, hn::LoadU(d, y + i), act, imm), d, y + i);
  }
  if (i == n) return;
  HWY_ALIGN float tail[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(tail, y + i, static_cast<size_t>(n - i) * sizeof(float));
  hn::Store(::opsnn::HWY_NAMESPACE::ApplyAct(d, hn::Load(d, tail), act, imm), d, tail);
  std::memcpy(y + i, tail, static_cast<size_t>(n - i) * sizeof(float));
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(ActPassTier);
void ActPass(RegAct act, const float* imm, float* y, int64_t n) {
  OPSNN_TIER_CALL(ActPassTier)(act, imm, y, n);
}
}  // namespace opsnn::conv
#endif
