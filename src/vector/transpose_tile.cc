#include "vector/transpose_tile.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vector/transpose_tile.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

// 4 x 4 in 128-bit vectors on every tier: two shuffles an element row, and the cache lines of 16 columns are
// used up by the next three tiles. Wider shuffles gained nothing against the loads and stores.
HWY_INLINE void Transpose4x4(const float* src, int64_t src_stride, float* dst, int64_t dst_stride) {
  const hn::Full128<float> d;
  const hn::Repartition<double, decltype(d)> dd;
  const auto a = hn::LoadU(d, src), b = hn::LoadU(d, src + src_stride);
  const auto c = hn::LoadU(d, src + 2 * src_stride), e = hn::LoadU(d, src + 3 * src_stride);
  const auto ab_lo = hn::InterleaveLower(d, a, b), ab_hi = hn::InterleaveUpper(d, a, b);
  const auto ce_lo = hn::InterleaveLower(d, c, e), ce_hi = hn::InterleaveUpper(d, c, e);
  auto pair = [dd, d](auto x, auto y, bool upper) HWY_ATTR {
    const auto u = hn::BitCast(dd, x), v = hn::BitCast(dd, y);
    return hn::BitCast(d, upper ? hn::InterleaveUpper(dd, u, v) : hn::InterleaveLower(dd, u, v));
  };
  hn::StoreU(pair(ab_lo, ce_lo, false), d, dst);
  hn::StoreU(pair(ab_lo, ce_lo, true), d, dst + dst_stride);
  hn::StoreU(pair(ab_hi, ce_hi, false), d, dst + 2 * dst_stride);
  hn::StoreU(pair(ab_hi, ce_hi, true), d, dst + 3 * dst_stride);
}

}  // namespace

void Transpose(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows,
               int64_t cols) {
  int64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    const float* s = src + c * src_stride;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) Transpose4x4(s + r, src_stride, dst + r * dst_stride + c, dst_stride);
    for (; r < rows; ++r) {
      for (int64_t k = 0; k < 4; ++k) dst[r * dst_stride + c + k] = s[k * src_stride + r];
    }
  }
  for (; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) dst[r * dst_stride + c] = src[c * src_stride + r];
  }
}

}  // namespace opsnn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::vector {
OPSNN_TIER_TABLE(Transpose);
void TransposeTile(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows,
                   int64_t cols) {
  OPSNN_TIER_CALL(Transpose)(src, src_stride, dst, dst_stride, rows, cols);
}
}  // namespace opsnn::vector
#endif
