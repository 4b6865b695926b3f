// Gradients of a norm over rows, from what the forward pass saved of each:
//
//   n = (x - mean) * rstd,  g = dy * gamma
//   dx = (g - mean(g) - n * mean(g * n)) * rstd      without statistics of the mean, mean and mean(g) are 0
//   dgamma = sum over the rows of dy * n,  dbeta = sum over the rows of dy
//
// dy and x are read from memory once. Sums along a row are those of vector/reduce-inl.h; down the columns,
// kNormGradRows rows are added up in f32 and those sums in f64, so that results do not depend on threads.
#ifndef OPSNN_KERNELS_REDUCE_ROW_NORM_GRAD_H_
#define OPSNN_KERNELS_REDUCE_ROW_NORM_GRAD_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace opsnn::kernels {

inline constexpr int64_t kNormGradRows = 64;

struct RowNormGrad {
  int64_t rows = 0, cols = 0;
  DType type = DType::kF32;  // of dy, x and dx, which are contiguous: f32, f16 or bf16
  const void *dy = nullptr, *x = nullptr;
  const float* mean = nullptr;  // one per row; null: not centred
  const float* rstd = nullptr;
  const float* gamma = nullptr;  // null: 1
  void* dx = nullptr;            // this and the next may be null; dx may be dy or x
  float *dgamma = nullptr, *dbeta = nullptr;
};

size_t RowNormGradScratch(int64_t rows, int64_t cols);  // bytes
void RunRowNormGrad(const RowNormGrad& p, void* scratch);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_REDUCE_ROW_NORM_GRAD_H_
