#include "vector/convert_half.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/convert_half.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "simd/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace {

// Runs load/store over whole vectors; the tail goes through one vector of scratch.
template <class From, class To, class Step>
HWY_INLINE void Convert(const From* src, To* dst, int64_t n, const Step& step) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(src + i, dst + i);
  if (i == n) return;
  From in[hn::MaxLanes(d)] = {};
  To out[hn::MaxLanes(d)];
  for (int64_t k = i; k < n; ++k) in[k - i] = src[k];
  step(in, out);
  for (int64_t k = i; k < n; ++k) dst[k] = out[k - i];
}

}  // namespace

void F16ToF32(const F16* src, float* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  Convert(src, dst, n, [d](const F16* s, float* t) HWY_ATTR { hn::StoreU(LoadF16(d, s), d, t); });
}
void BF16ToF32(const BF16* src, float* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  Convert(src, dst, n, [d](const BF16* s, float* t) HWY_ATTR { hn::StoreU(LoadBF16(d, s), d, t); });
}
void F32ToF16(const float* src, F16* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  Convert(src, dst, n, [d](const float* s, F16* t) HWY_ATTR { StoreF16(hn::LoadU(d, s), d, t); });
}
void F32ToBF16(const float* src, BF16* dst, int64_t n) {
  const hn::ScalableTag<float> d;
  Convert(src, dst, n, [d](const float* s, BF16* t) HWY_ATTR { StoreBF16(hn::LoadU(d, s), d, t); });
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(F16ToF32);
OPSNN_TIER_TABLE(BF16ToF32);
OPSNN_TIER_TABLE(F32ToF16);
OPSNN_TIER_TABLE(F32ToBF16);
void ConvertHalf(const F16* src, float* dst, int64_t n) { OPSNN_TIER_CALL(F16ToF32)(src, dst, n); }
void ConvertHalf(const BF16* src, float* dst, int64_t n) { OPSNN_TIER_CALL(BF16ToF32)(src, dst, n); }
void ConvertHalf(const float* src, F16* dst, int64_t n) { OPSNN_TIER_CALL(F32ToF16)(src, dst, n); }
void ConvertHalf(const float* src, BF16* dst, int64_t n) { OPSNN_TIER_CALL(F32ToBF16)(src, dst, n); }
}  // namespace opsnn::vector
#endif
