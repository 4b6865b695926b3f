#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/plain.cc"
#include "kernels/gemm/plain.h"

#include "base/parallel.h"
#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/internal.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V MulAccumulate(D, V a, V b, V sum) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::MulAdd(a, b, sum);
  } else {
    return hn::Add(hn::Mul(a, b), sum);  // wraps
  }
}

// MR rows against one panel of two vectors; `cols` of its columns are stored.
template <typename T, int MR>
void PlainTile(const PlainParams& p, const T* a, const T* panel, int64_t cols, T* c) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> acc[MR][2];
#pragma GCC unroll 4
  for (int i = 0; i < MR; ++i) acc[i][0] = acc[i][1] = hn::Zero(d);
  for (int64_t k = 0; k < p.k; ++k) {
    const auto b0 = hn::Load(d, panel + k * 2 * lanes), b1 = hn::Load(d, panel + k * 2 * lanes + lanes);
#pragma GCC unroll 4
    for (int i = 0; i < MR; ++i) {
      const auto x = hn::Set(d, a[i * p.a.row_stride + k * p.a.col_stride]);
      acc[i][0] = MulAccumulate(d, x, b0, acc[i][0]);
      acc[i][1] = MulAccumulate(d, x, b1, acc[i][1]);
    }
  }
  HWY_ALIGN T row[2 * hn::MaxLanes(d)];
  for (int i = 0; i < MR; ++i) {
    hn::Store(acc[i][0], d, row);
    hn::Store(acc[i][1], d, row + lanes);
    for (int64_t j = 0; j < cols; ++j) c[i * p.c_row_stride + j] = row[j];
  }
}

template <typename T>
void PlainPanel(const PlainParams& p, int64_t batch, int64_t panel, T* scratch) {
  const int64_t width = 2 * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t col = panel * width, cols = std::min(width, p.n - col);
  const T* b = static_cast<const T*>(p.b.data) + batch * p.b.batch_stride + col * p.b.col_stride;
  for (int64_t k = 0; k < p.k; ++k) {
    for (int64_t j = 0; j < width; ++j) {
      scratch[k * width + j] = j < cols ? b[k * p.b.row_stride + j * p.b.col_stride] : T{0};
    }
  }
  const T* a = static_cast<const T*>(p.a.data) + batch * p.a.batch_stride;
  T* c = static_cast<T*>(p.c) + batch * p.c_batch_stride + col;
  int64_t i = 0;
  for (; i + 4 <= p.m; i += 4) {
    PlainTile<T, 4>(p, a + i * p.a.row_stride, scratch, cols, c + i * p.c_row_stride);
  }
  for (; i < p.m; ++i) PlainTile<T, 1>(p, a + i * p.a.row_stride, scratch, cols, c + i * p.c_row_stride);
}

int64_t PlainWidth(bool is_f64) {
  return 2 * static_cast<int64_t>(is_f64 ? hn::Lanes(hn::ScalableTag<double>())
                                         : hn::Lanes(hn::ScalableTag<int32_t>()));
}
void PlainPanelKernel(const PlainParams& p, int64_t batch, int64_t panel, void* scratch) {
  if (p.a.dtype == DType::kF64) {
    PlainPanel(p, batch, panel, static_cast<double*>(scratch));
  } else {
    PlainPanel(p, batch, panel, static_cast<int32_t*>(scratch));
  }
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(PlainWidth);
OPSNN_TIER_TABLE(PlainPanelKernel);

void RunPlain(const PlainParams& p) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  const bool is_f64 = p.a.dtype == DType::kF64;
  const int64_t width = OPSNN_TIER_CALL(PlainWidth)(is_f64), panels = CeilDiv(p.n, width);
  ParallelFor(panels * p.batch, [&](int64_t i, int) {
    void* scratch = ThreadScratch(Scratch::kB, width * p.k * (is_f64 ? 2 : 1));
    if (!scratch) return;
    OPSNN_TIER_CALL(PlainPanelKernel)(p, i / panels, i % panels, scratch);
  });
}
}  // namespace opsnn::gemm
#endif
