// Sums of an integer product back to bytes, in f64, where products of two f32 scales are exact:
//   y = saturate(round((c + bias) * factor) + zero)
#ifndef OPSNN_KERNELS_GEMM_REQUANTISE_H_
#define OPSNN_KERNELS_GEMM_REQUANTISE_H_

#include <cstdint>

#include "base/dtype.h"

namespace opsnn::gemm {

// Values of rows or columns: element (i, j) is at i * row_stride + j * col_stride, strides of 0 or 1.
struct Requantise {
  const double* factor = nullptr;
  int64_t factor_row_stride = 0, factor_col_stride = 0;
  const int32_t* bias = nullptr;  // null: none; the sum wraps as sums of integers do
  int64_t bias_row_stride = 0, bias_col_stride = 0;
  int32_t zero = 0;
  DType to = DType::kU8;  // or s8
  void* y = nullptr;      // unit column stride
  int64_t y_row_stride = 0, y_batch_stride = 0;
};

// The block of C whose element (0, 0) is (row, col) of matrix `batch`.
void RequantiseBlock(const Requantise& q, const int32_t* c, int64_t ldc, int64_t batch, int64_t row,
                     int64_t rows, int64_t col, int64_t cols);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_REQUANTISE_H_
