// Softmax and log-softmax down the columns of a block: the reduced dim is not the innermost one (NCHW, axis
// 1).
//
// A strip of columns with all its rows stays in L2: maximum, exp(x - max) and sum, quotient. Each step is a
// vector program on the strip or a column reduction, so rows of any dtype work and the sums are those of
// CombineRows.
#ifndef OPSNN_KERNELS_REDUCE_COLUMN_SOFTMAX_H_
#define OPSNN_KERNELS_REDUCE_COLUMN_SOFTMAX_H_

#include <memory>

#include "tensor/shape.h"
#include "vector/run.h"

namespace opsnn::kernels {

struct ColumnSoftmax {
  bool log = false;
  DType x_dtype = DType::kF32, y_dtype = DType::kF32;
  Dims outer, x_outer_strides, y_outer_strides;  // dims other than the reduced one and the columns
  int64_t rows = 0, x_row_stride = 0, y_row_stride = 0;
  int64_t cols = 0, x_col_stride = 1, y_col_stride = 1;
};

// The compiled steps for one description; immutable.
class ColumnSoftmaxPlan {
 public:
  static Result<std::shared_ptr<const ColumnSoftmaxPlan>> Make(const ColumnSoftmax& params);
  // y may be x with the same strides.
  Status Run(const void* x, void* y) const;  // kRuntime when there is no memory for a strip

 private:
  bool RunStrip(const char* x, char* y, int64_t cols) const;

  ColumnSoftmax p_;
  int64_t strip_cols_ = 0;
  ComputeType type_ = ComputeType::kF32;
  std::shared_ptr<const vector::CompiledProgram> load_, exp_, reciprocal_, store_;
};

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_REDUCE_COLUMN_SOFTMAX_H_
