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

void PostPassTier(const Post& post, float* y, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto scale = hn::Set(d, post.scale), shift = hn::Set(d, post.shift);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto apply = [&](auto x) HWY_ATTR {
    x = ::opsnn::HWY_NAMESPACE::ApplyAct(d, x, post.act, post.act_imm);
    return hn::Add(hn::Mul(x, scale), shift);  // neutral unless post.affine
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(apply(hn::LoadU(d, y + i)), d, y + i);
  }
  if (i == n) return;
  HWY_ALIGN float tail[HWY_MAX_BYTES / sizeof(float)] = {};
  std::memcpy(tail, y + i, static_cast<size_t>(n - i) * sizeof(float));
  hn::Store(apply(hn::Load(d, tail)), d, tail);
  std::memcpy(y + i, tail, static_cast<size_t>(n - i) * sizeof(float));
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {
OPSNN_TIER_TABLE(PostPassTier);
void PostPass(const Post& post, float* y, int64_t n) { OPSNN_TIER_CALL(PostPassTier)(post, y, n); }
}  // namespace opsnn::conv
#endif
