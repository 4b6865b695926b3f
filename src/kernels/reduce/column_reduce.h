// The column accumulator: reductions down the columns of a block, for reduced dims that are not the
// innermost.
//
//   y[o, c] = epilogue(combine over r of prologue(x[o, r, c]))
//
// Rows are read in groups of eight from a strip of columns that stays in L1. The order of additions depends
// on the number of rows alone: eight rows as a tree, groups of kRowsPerPartial rows into partials, partials
// in order. So the result is the same for any thread count, position of the column, and tier.
#ifndef OPSNN_KERNELS_REDUCE_COLUMN_REDUCE_H_
#define OPSNN_KERNELS_REDUCE_COLUMN_REDUCE_H_

#include <cstdint>

#include "tensor/shape.h"
#include "tensor/tensor_view.h"
#include "vector/run.h"

namespace opsnn::kernels {

enum class Combine : uint8_t { kSum, kMax, kMin, kProd };  // max and min of a column with NaN are NaN

inline constexpr int64_t kRowsPerPartial = 256;

// acc[c] = acc[c] combined with rows[0][c] ... rows[count - 1][c], 1 <= count <= 8; T is f32, f64, s32 or
// s64. Integer sums and products wrap.
void CombineRows(Combine op, ComputeType type, const void* const* rows, int count, void* acc, int64_t cols);
// The same for `count` rows, row i at first + i * stride (elements), in groups of eight. Columns are taken
// some vectors at a time, whose sums stay in registers: for what lies in a near cache, as rows are not read
// as streams.
void CombineNearRows(Combine op, ComputeType type, const void* first, int64_t stride, int64_t count,
                     void* acc, int64_t cols);
// acc[c] = the neutral element.
void FillNeutral(Combine op, ComputeType type, void* acc, int64_t cols);

// Offset of the index-th position of `dims` in row-major order.
inline int64_t OffsetOf(int64_t index, const Dims& dims, const Dims& strides) {
  int64_t offset = 0;
  for (int i = dims.rank() - 1; i >= 0; --i) {
    offset += index % dims[i] * strides[i];
    index /= dims[i];
  }
  return offset;
}

struct ColumnReduce {
  Combine op = Combine::kSum;
  ComputeType type = ComputeType::kF32;               // what is accumulated
  const vector::CompiledProgram* prologue = nullptr;  // one input, one output; null: x itself, converted
  const vector::CompiledProgram* epilogue =
      nullptr;  // one input (the accumulator), one output; null: converted
  DType x_dtype = DType::kF32, y_dtype = DType::kF32;
  Dims outer, x_outer_strides, y_outer_strides;  // kept dims other than the columns
  Dims rows, x_row_strides;                      // reduced dims
  int64_t cols = 0, x_col_stride = 1, y_col_stride = 1;
};

// Strides in elements. No rows give the neutral element through the epilogue.
void ReduceColumns(const ColumnReduce& r, const void* x, void* y);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_REDUCE_COLUMN_REDUCE_H_
