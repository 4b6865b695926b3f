// Few rows against a large B that is streamed once: by rows (unit stride along n) and by dots (along k).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemv.cc"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/tail-inl.h"
#include "simd/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int kRegs = kLanes == 16 ? 32 : 16;
// Rows of B read side by side.
constexpr int64_t Streams(int rows) { return GemvStreams(rows); }

// B as it is stored: halves are widened as they arrive, so that only their bytes come from memory.
HWY_INLINE V LoadB(const float* p) { return hn::LoadU(D(), p); }
HWY_INLINE V LoadB(const BF16* p) { return opsnn::HWY_NAMESPACE::LoadBF16(D(), p); }
HWY_INLINE V LoadB(const F16* p) { return opsnn::HWY_NAMESPACE::LoadF16(D(), p); }
HWY_INLINE V LoadFirstB(const float* p, size_t n) { return LoadFirst(D(), p, n); }
template <class T>
HWY_INLINE V LoadFirstB(const T* p, size_t n) {
  T lanes[kLanes] = {};
  memcpy(lanes, p, n * sizeof(T));
  return LoadB(lanes);
}

// Vectors of columns per step: up to eight, with all accumulators and one operand in registers. Few per row
// of B keep what is on its way from memory evenly spread over the streams.
constexpr int RowVectors(int rows) {
  const int most = rows == 1 ? 8 : rows <= 4 ? 4 : 2;
  return rows == 1 ? most : std::max(1, std::min(most, (kRegs - 4) / (rows + 1)));
}
// Columns per step of the dots: accumulators, one vector of each column and one of A.
constexpr int DotColumns(int rows) { return std::max(1, std::min(8, (kRegs - 1) / (rows + 1))); }

// A group of rows of B, and how many follow it: their lines are asked for while this one is read, line by
// line. Hardware follows the rows too, but stops at the end of a page (with it alone, eight rows against 4096
// x 4096 took 7.2 ms where they take 4.9, and one row 4.0 instead of 3.4).
struct Group {
  int64_t depth = 0, following = 0;
  bool accumulate = false;
};

// One step: M rows x NV vectors of C over a group of rows of B; the last vector has `last` lanes.
template <int M, int NV, class T>
HWY_INLINE void RowsStep(const float* a, int64_t lda, const T* b, int64_t ldb, const Group& group, float* c,
                         int64_t ldc, size_t last) {
  const bool accumulate = group.accumulate;
  const D d;
  V acc[M][NV];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      const float* p = c + r * ldc + j * kLanes;
      const bool whole = j < NV - 1 || last == kLanes;
      acc[r][j] = !accumulate ? hn::Zero(d) : whole ? hn::LoadU(d, p) : LoadFirst(d, p, last);
    }
  }
  const int64_t ahead = Streams(M) * ldb;
  for (int64_t k = 0; k < group.depth; ++k) {
    V bk[NV];
    const T* next = k < group.following ? b + ahead : b;
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      const bool whole = j < NV - 1 || last == kLanes;
      __builtin_prefetch(next + j * kLanes, 0, 2);
      bk[j] = whole ? LoadB(b + j * kLanes) : LoadFirstB(b + j * kLanes, last);
    }
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const V ar = hn::Set(d, a[r * lda + k]);
#pragma GCC unroll 8
      for (int j = 0; j < NV; ++j) acc[r][j] = hn::MulAdd(ar, bk[j], acc[r][j]);
    }
    b += ldb;
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < NV; ++j) {
      float* p = c + r * ldc + j * kLanes;
      if (j < NV - 1 || last == kLanes) {
        hn::StoreU(acc[r][j], d, p);
      } else {
        StoreFirst(acc[r][j], d, p, last);
      }
    }
  }
}

template <int M, class T>
void Rows(const GemvArgs& g) {
  constexpr int NV = RowVectors(M);
  constexpr int64_t kStreams = Streams(M);
  for (int64_t k = 0; k < g.depth; k += kStreams) {
    const Group group = {std::min(kStreams, g.depth - k), g.depth - k - kStreams, k > 0};
    const T* b = static_cast<const T*>(g.b) + k * g.ldb;
    int64_t j = 0;
    for (; j + NV * kLanes <= g.cols; j += NV * kLanes) {
      RowsStep<M, NV>(g.a + k, g.lda, b + j, g.ldb, group, g.c + j, g.ldc, kLanes);
    }
    for (; j < g.cols; j += kLanes) {
      const size_t last = static_cast<size_t>(std::min(kLanes, g.cols - j));
      RowsStep<M, 1>(g.a + k, g.lda, b + j, g.ldb, group, g.c + j, g.ldc, last);
    }
  }
}

// NB columns over k in [k0, k1); sums go on from C where k0 > 0.
template <int M, int NB, class T>
HWY_INLINE void DotsStep(const GemvArgs& g, const T* b, int64_t k0, int64_t k1, float* c,
                         int64_t c_col_stride) {
  const D d;
  V acc[M][NB];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) acc[r][j] = hn::Zero(d);
  }
  int64_t k = k0;
  for (; k + kLanes <= k1; k += kLanes) {
    V bk[NB];
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) {
      bk[j] = LoadB(b + j * g.ldb + k);
      __builtin_prefetch(b + (NB + j) * g.ldb + k, 0, 2);  // for the next columns
    }
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const V ar = hn::LoadU(d, g.a + r * g.lda + k);
#pragma GCC unroll 8
      for (int j = 0; j < NB; ++j) acc[r][j] = hn::MulAdd(ar, bk[j], acc[r][j]);
    }
  }
  if (k < k1) {  // zero lanes on both sides: they add +0
    const size_t n = static_cast<size_t>(k1 - k);
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) {
      const V bk = LoadFirstB(b + j * g.ldb + k, n);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) acc[r][j] = hn::MulAdd(LoadFirst(d, g.a + r * g.lda + k, n), bk, acc[r][j]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) {
      float& out = c[r * g.ldc + j * c_col_stride];
      const float sum = hn::GetLane(hn::SumOfLanes(d, acc[r][j]));
      out = k0 > 0 ? out + sum : sum;
    }
  }
}

template <int M, class T>
void Dots(const GemvArgs& g, int64_t c_col_stride) {
  constexpr int NB = DotColumns(M);
  const T* b = static_cast<const T*>(g.b);
  // The rows of A over this depth stay in L1 while all columns pass them.
  constexpr int64_t kDepth = 8192 / M / kLanes * kLanes;
  for (int64_t k0 = 0; k0 == 0 || k0 < g.depth; k0 += kDepth) {
    const int64_t k1 = std::min(g.depth, k0 + kDepth);
    int64_t j = 0;
    for (; j + NB <= g.cols; j += NB)
      DotsStep<M, NB>(g, b + j * g.ldb, k0, k1, g.c + j * c_col_stride, c_col_stride);
    for (; j < g.cols; ++j) DotsStep<M, 1>(g, b + j * g.ldb, k0, k1, g.c + j * c_col_stride, c_col_stride);
  }
}

using RowsFn = void (*)(const GemvArgs&);
using DotsFn = void (*)(const GemvArgs&, int64_t);
template <class T>
constexpr RowsFn kRowsFns[] = {&Rows<1, T>, &Rows<2, T>, &Rows<3, T>, &Rows<4, T>,
                               &Rows<5, T>, &Rows<6, T>, &Rows<7, T>, &Rows<8, T>};
template <class T>
constexpr DotsFn kDotsFns[] = {&Dots<1, T>, &Dots<2, T>, &Dots<3, T>, &Dots<4, T>,
                               &Dots<5, T>, &Dots<6, T>, &Dots<7, T>, &Dots<8, T>};

void GemvRowsKernel(const GemvArgs& g) {
  const RowsFn* fns = g.b_dtype == DType::kF32    ? kRowsFns<float>
                      : g.b_dtype == DType::kBF16 ? kRowsFns<BF16>
                                                  : kRowsFns<F16>;
  fns[g.rows - 1](g);
}
void GemvDotsKernel(const GemvArgs& g, int64_t c_col_stride) {
  const DotsFn* fns = g.b_dtype == DType::kF32    ? kDotsFns<float>
                      : g.b_dtype == DType::kBF16 ? kDotsFns<BF16>
                                                  : kDotsFns<F16>;
  fns[g.rows - 1](g, c_col_stride);
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(GemvRowsKernel);
OPSNN_TIER_TABLE(GemvDotsKernel);
void GemvRows(const GemvArgs& args) { OPSNN_TIER_CALL(GemvRowsKernel)(args); }
void GemvDots(const GemvArgs& args, int64_t c_col_stride) {
  OPSNN_TIER_CALL(GemvDotsKernel)(args, c_col_stride);
}
}  // namespace opsnn::gemm
#endif
