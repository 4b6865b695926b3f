// Packing of any strides into k-major panels.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/pack.cc"
#include <algorithm>
#include <cstring>
#include <utility>

#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/bf16_internal.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/tail-inl.h"
#include "vector/convert.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// Unit stride along i: rows are copied, the columns beyond `width` become zero.
void PackRows(const float* src, int64_t k_stride, int64_t width, int64_t depth, float* dst, int64_t ld) {
  const D d;
  const int64_t whole = width / kLanes * kLanes, rest = width - whole;
  for (int64_t k = 0; k < depth; ++k) {
    const float* s = src + k * k_stride;
    float* t = dst + k * ld;
    int64_t i = 0;
    for (; i < whole; i += kLanes) hn::StoreU(hn::LoadU(d, s + i), d, t + i);
    if (rest != 0) {
      const V v = LoadFirst(d, s + i, static_cast<size_t>(rest));
      if (i + kLanes <= ld) {
        hn::StoreU(v, d, t + i);
        i += kLanes;
      } else {
        StoreFirst(v, d, t + i, static_cast<size_t>(ld - i));
        i = ld;
      }
    }
    for (; i < ld; i += kLanes) hn::StoreU(hn::Zero(d), d, t + i);  // ld > width: whole vectors
  }
}

// Stores the 4-float blocks of v at dst, dst + step, ...
template <class DV>
HWY_INLINE void StoreBlocks(DV d, hn::Vec<DV> v, float* dst, int64_t step) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    hn::StoreU(v, d, dst);
  } else {
    const hn::Half<DV> dh;
    StoreBlocks(dh, hn::LowerHalf(dh, v), dst, step);
    StoreBlocks(dh, hn::UpperHalf(dh, v), dst + static_cast<int64_t>(hn::MaxLanes(dh)) / 4 * step, step);
  }
}

// Four rows of kLanes values, transposed: value (i, k) to dst[k * ld + i]. The rows `next` further on are
// asked for.
HWY_INLINE void TransposeFour(const float* src, int64_t i_stride, float* dst, int64_t ld, int64_t next) {
  const D d;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) __builtin_prefetch(src + i * i_stride + next, 0, 2);
  const V r0 = hn::LoadU(d, src), r1 = hn::LoadU(d, src + i_stride);
  const V r2 = hn::LoadU(d, src + 2 * i_stride), r3 = hn::LoadU(d, src + 3 * i_stride);
  const V q0 = hn::InterleaveLower(d, r0, r2), q1 = hn::InterleaveLower(d, r1, r3);
  const V q2 = hn::InterleaveUpper(d, r0, r2), q3 = hn::InterleaveUpper(d, r1, r3);
  StoreBlocks(d, hn::InterleaveLower(d, q0, q1), dst, 4 * ld);
  StoreBlocks(d, hn::InterleaveUpper(d, q0, q1), dst + ld, 4 * ld);
  StoreBlocks(d, hn::InterleaveLower(d, q2, q3), dst + 2 * ld, 4 * ld);
  StoreBlocks(d, hn::InterleaveUpper(d, q2, q3), dst + 3 * ld, 4 * ld);
}

// Unit stride along k: a transposition by groups of four rows; the last group overlaps the one before.
void PackTransposed(const float* src, int64_t i_stride, int64_t width, int64_t depth, float* dst, int64_t ld,
                    int64_t next) {
  int64_t k = 0;
  if (width >= 4) {
    for (; k + kLanes <= depth; k += kLanes) {
      for (int64_t i = 0; i < width; i += 4) {
        const int64_t first = std::min(i, width - 4);
        TransposeFour(src + first * i_stride + k, i_stride, dst + k * ld + first, ld, next);
      }
    }
    if (width < ld) {
      for (int64_t z = 0; z < k; ++z)
        memset(dst + z * ld + width, 0, static_cast<size_t>(ld - width) * sizeof(float));
    }
  }
  for (; k < depth; ++k) {
    for (int64_t i = 0; i < width; ++i) dst[k * ld + i] = src[i * i_stride + k];
    for (int64_t i = width; i < ld; ++i) dst[k * ld + i] = 0;
  }
}

void PackF32Kernel(const PackSource& s, int64_t width, int64_t depth, float* dst, int64_t ld) {
  const float* src = static_cast<const float*>(s.data);
  if (s.i_stride == 1) {
    PackRows(src, s.k_stride, width, depth, dst, ld);
  } else if (s.k_stride == 1) {
    PackTransposed(src, s.i_stride, width, depth, dst, ld, s.next);
  } else {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t i = 0; i < width; ++i) dst[k * ld + i] = src[i * s.i_stride + k * s.k_stride];
      for (int64_t i = width; i < ld; ++i) dst[k * ld + i] = 0;
    }
  }
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(PackF32Kernel);

namespace {
// Widens whole rows of the source first, so that the half types need no packing loops of their own.
void PackConverted(const PackSource& s, int64_t width, int64_t depth, float* dst, int64_t ld) {
  const int64_t size = static_cast<int64_t>(SizeOf(s.dtype));
  const char* src = static_cast<const char*>(s.data);
  if (s.k_stride == 1 && s.i_stride != 1) {
    float* rows = ThreadScratch(Scratch::kConvert, width * depth);
    if (!rows) return std::fill(dst, dst + depth * ld, 0.0f);  // the failure is noted
    for (int64_t i = 0; i < width; ++i) {
      vector::LoadConvert(s.dtype, src + i * s.i_stride * size, 1, ComputeType::kF32, rows + i * depth,
                          depth);
    }
    return PackPanel({rows, DType::kF32, depth, 1}, width, depth, dst, ld);
  }
  for (int64_t k = 0; k < depth; ++k) {
    vector::LoadConvert(s.dtype, src + k * s.k_stride * size, s.i_stride, ComputeType::kF32, dst + k * ld,
                        width);
    std::fill(dst + k * ld + width, dst + (k + 1) * ld, 0.0f);
  }
}
}  // namespace

PackSource Rows(const Operand& a, int64_t batch) {
  PackSource s{a.data, a.dtype, a.row_stride, a.col_stride};
  s.data = static_cast<const char*>(a.data) + batch * a.batch_stride * static_cast<int64_t>(SizeOf(a.dtype));
  return s;
}
PackSource Columns(const Operand& b, int64_t batch) {
  PackSource s = Rows(b, batch);
  std::swap(s.i_stride, s.k_stride);
  return s;
}

void PackPanel(const PackSource& source, int64_t width, int64_t depth, float* dst, int64_t ld) {
  if (source.pair_k > 0) {
    PackPairs(source, width, depth, dst, ld);
  } else if (source.dtype == DType::kF32) {
    OPSNN_TIER_CALL(PackF32Kernel)(source, width, depth, dst, ld);
  } else {
    PackConverted(source, width, depth, dst, ld);
  }
}
}  // namespace opsnn::gemm
#endif
