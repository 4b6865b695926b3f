#include "kernels/conv/blocked.h"

#include "base/parallel.h"
#include "kernels/conv/conv.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/blocked.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::conv::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows r[0..3] become columns. 128-bit vectors on every tier: the conversion is bound by memory.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void Transpose4(D d, V& r0, V& r1, V& r2, V& r3) {
  const hn::Repartition<double, D> dd;
  const auto a = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1)),
             b = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto c = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1)),
             e = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  r0 = hn::BitCast(d, hn::InterleaveLower(dd, a, b));
  r1 = hn::BitCast(d, hn::InterleaveUpper(dd, a, b));
  r2 = hn::BitCast(d, hn::InterleaveLower(dd, c, e));
  r3 = hn::BitCast(d, hn::InterleaveUpper(dd, c, e));
}

void ToBlockedTier(const float* planes, int64_t plane_stride, int lanes, int64_t pixels, float* blocked) {
  const hn::CappedTag<float, 4> d;
  int64_t p = 0;
  for (; p + 4 <= pixels; p += 4) {
    for (int l = 0; l < kC0; l += 4) {
      const float* src = planes + l * plane_stride + p;
      auto r0 = l + 0 < lanes ? hn::LoadU(d, src) : hn::Zero(d);
      auto r1 = l + 1 < lanes ? hn::LoadU(d, src + plane_stride) : hn::Zero(d);
      auto r2 = l + 2 < lanes ? hn::LoadU(d, src + 2 * plane_stride) : hn::Zero(d);
      auto r3 = l + 3 < lanes ? hn::LoadU(d, src + 3 * plane_stride) : hn::Zero(d);
      Transpose4(d, r0, r1, r2, r3);
      float* dst = blocked + p * kC0 + l;
      hn::StoreU(r0, d, dst);
      hn::StoreU(r1, d, dst + kC0);
      hn::StoreU(r2, d, dst + 2 * kC0);
      hn::StoreU(r3, d, dst + 3 * kC0);
    }
  }
  for (; p < pixels; ++p)
    for (int l = 0; l < kC0; ++l) blocked[p * kC0 + l] = l < lanes ? planes[l * plane_stride + p] : 0.0f;
}

void FromBlockedTier(const float* blocked, int lanes, int64_t pixels, float* planes, int64_t plane_stride) {
  const hn::CappedTag<float, 4> d;
  int64_t p = 0;
  for (; p + 4 <= pixels; p += 4) {
    for (int l = 0; l < lanes; l += 4) {
      const float* src = blocked + p * kC0 + l;
      auto r0 = hn::LoadU(d, src), r1 = hn::LoadU(d, src + kC0);
      auto r2 = hn::LoadU(d, src + 2 * kC0), r3 = hn::LoadU(d, src + 3 * kC0);
      Transpose4(d, r0, r1, r2, r3);
      float* dst = planes + l * plane_stride + p;
      hn::StoreU(r0, d, dst);
      if (l + 1 < lanes) hn::StoreU(r1, d, dst + plane_stride);
      if (l + 2 < lanes) hn::StoreU(r2, d, dst + 2 * plane_stride);
      if (l + 3 < lanes) hn::StoreU(r3, d, dst + 3 * plane_stride);
    }
  }
  for (; p < pixels; ++p)
    for (int l = 0; l < lanes; ++l) planes[l * plane_stride + p] = blocked[p * kC0 + l];
}

}  // namespace opsnn::conv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::conv {

OPSNN_TIER_TABLE(ToBlockedTier);
OPSNN_TIER_TABLE(FromBlockedTier);

void ToBlocked(const float* planes, int64_t plane_stride, int lanes, int64_t pixels, float* blocked) {
  OPSNN_TIER_CALL(ToBlockedTier)(planes, plane_stride, lanes, pixels, blocked);
}

void FromBlocked(const float* blocked, int lanes, int64_t pixels, float* planes, int64_t plane_stride) {
  OPSNN_TIER_CALL(FromBlockedTier)(blocked, lanes, pixels, planes, plane_stride);
}

void ImagesToBlocked(const float* nchw, int64_t n, int64_t c, int64_t pixels, float* blocked) {
  const int64_t blocks = (c + kC0 - 1) / kC0;
  ParallelFor(n * blocks, [&](int64_t i, int) {
    const int64_t image = i / blocks, b = i % blocks;
    const int lanes = static_cast<int>(c - b * kC0 < kC0 ? c - b * kC0 : kC0);
    ToBlocked(nchw + (image * c + b * kC0) * pixels, pixels, lanes, pixels, blocked + i * pixels * kC0);
  });
}

}  // namespace opsnn::conv
#endif
