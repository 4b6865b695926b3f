// Strips of FRACTAL_NZ: products of few rows, which read them as they lie, and packing.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/strips.cc"
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
template <class T>
constexpr int64_t kStrip = 32 / static_cast<int64_t>(sizeof(T));

template <class DV>
HWY_INLINE hn::Vec<DV> Widen(DV d, const float* p) {
  return hn::LoadU(d, p);
}
template <class DV>
HWY_INLINE hn::Vec<DV> Widen(DV d, const BF16* p) {
  return opsnn::HWY_NAMESPACE::LoadBF16(d, p);
}
template <class DV>
HWY_INLINE hn::Vec<DV> Widen(DV d, const F16* p) {
  return opsnn::HWY_NAMESPACE::LoadF16(d, p);
}

// A vector of columns: where a strip is half as wide, of two.
template <class T>
HWY_INLINE V LoadColumns(const T* lo, const T* hi) {
  if constexpr (kLanes > kStrip<T>) {
    const hn::Half<D> dh;
    return hn::Combine(D(), Widen(dh, hi), Widen(dh, lo));
  } else {
    return Widen(D(), lo);
  }
}

// Vectors of columns per step: enough sums at a time to hide the latency of an addition.
constexpr int Vectors(int rows) {
  const int most = rows == 1 ? 8 : rows <= 4 ? 4 : 2;
  return std::max(1, std::min(most, (kRegs - 4) / (rows + 1)));
}

// M rows x NV vectors of C from column j on; the last vector has `last` lanes.
template <int M, int NV, class T>
HWY_INLINE void Step(const GemvArgs& g, int64_t j, size_t last, bool adds) {
  const D d;
  const T *lo[NV], *hi[NV];
  V acc[M][NV];
#pragma GCC unroll 8
  for (int v = 0; v < NV; ++v) {
    const int64_t col = j + v * kLanes;
    lo[v] = static_cast<const T*>(g.b) + col / kStrip<T> * g.ldb + col % kStrip<T>;
    hi[v] = col + kStrip<T> < g.cols ? lo[v] + g.ldb : lo[v];  // no strip beyond the last
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) acc[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < g.depth; ++k) {
    V b[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) b[v] = LoadColumns(lo[v] + k * kStrip<T>, hi[v] + k * kStrip<T>);
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const V a = hn::Set(d, g.a[r * g.lda + k]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) acc[r][v] = hn::MulAdd(a, b[v], acc[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) {
      float* p = g.c + r * g.ldc + j + v * kLanes;
      if (v < NV - 1 || last == kLanes) {
        hn::StoreU(adds ? hn::Add(hn::LoadU(d, p), acc[r][v]) : acc[r][v], d, p);
      } else {
        StoreFirst(adds ? hn::Add(LoadFirst(d, p, last), acc[r][v]) : acc[r][v], d, p, last);
      }
    }
  }
}

template <int M, class T>
void Strips(const GemvArgs& g, bool adds) {
  constexpr int NV = Vectors(M);
  int64_t j = 0;
  for (; j + NV * kLanes <= g.cols; j += NV * kLanes) Step<M, NV, T>(g, j, kLanes, adds);
  for (; j < g.cols; j += kLanes) {
    Step<M, 1, T>(g, j, static_cast<size_t>(std::min(kLanes, g.cols - j)), adds);
  }
}

using StripsFn = void (*)(const GemvArgs&, bool);
template <class T>
constexpr StripsFn kStripsFns[] = {&Strips<1, T>, &Strips<2, T>, &Strips<3, T>, &Strips<4, T>,
                                   &Strips<5, T>, &Strips<6, T>, &Strips<7, T>, &Strips<8, T>};

void GemvStripsKernel(const GemvArgs& g, bool adds) {
  const StripsFn* fns = g.b_dtype == DType::kF32    ? kStripsFns<float>
                        : g.b_dtype == DType::kBF16 ? kStripsFns<BF16>
                                                    : kStripsFns<F16>;
  fns[g.rows - 1](g, adds);
}

template <class T>
void Pack(const void* source, int64_t width, int64_t depth, float* dst, int64_t ld) {
  const hn::CappedTag<float, 8> d;
  const T* src = static_cast<const T*>(source);
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t i = 0; i < width; i += static_cast<int64_t>(hn::MaxLanes(d))) {
      hn::StoreU(Widen(d, src + k * kStrip<T> + i), d, dst + k * ld + i);
    }
  }
}

void PackStripKernel(DType dtype, const void* src, int64_t width, int64_t depth, float* dst, int64_t ld) {
  if (dtype == DType::kF32) return Pack<float>(src, width, depth, dst, ld);
  dtype == DType::kBF16 ? Pack<BF16>(src, width, depth, dst, ld) : Pack<F16>(src, width, depth, dst, ld);
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(GemvStripsKernel);
OPSNN_TIER_TABLE(PackStripKernel);
void GemvStrips(const GemvArgs& args, bool adds) { OPSNN_TIER_CALL(GemvStripsKernel)(args, adds); }
void PackStrip(DType dtype, const void* src, int64_t width, int64_t depth, float* dst, int64_t ld) {
  OPSNN_TIER_CALL(PackStripKernel)(dtype, src, width, depth, dst, ld);
}
}  // namespace opsnn::gemm
#endif
