// Operands of a product as loops: strides over the leading dims (batch and rows) that all operands share.
#ifndef OPSNN_OPS_MATMUL_GEOMETRY_H_
#define OPSNN_OPS_MATMUL_GEOMETRY_H_

#include <vector>

#include "base/parallel.h"
#include "op/operator.h"
#include "ops/matmul/product.h"
#include "vector/run.h"

namespace opsnn::ops {

// One operand: element (lead..., row, col) lies at sum(lead * strides) + row * row_stride + col * col_stride.
// For A the columns are k, for B the rows are k and the lead's last dimension (m) has stride 0.
struct LoopOperand {
  bool is_output = false;
  int index = 0;  // in RunArgs
  DType dtype = DType::kF32;
  Dims lead;  // strides over LoopNest::lead
  int64_t row_stride = 0, col_stride = 0;
};

struct LoopNest {
  Dims lead;  // sizes: outer..., batch, m after Merge()
  int64_t n = 1, k = 1;
  LoopOperand a, b;
  std::vector<LoopOperand> args;  // of the epilogue: inputs, then outputs

  // Merges dims that every operand walks alike, so that a batch that shares B becomes rows; pads to rank 2.
  void Merge();
  int64_t m() const { return lead[lead.rank() - 1]; }
  int64_t batch() const { return lead[lead.rank() - 2]; }
};

LoopNest MakeLoops(const ProductShape& s, const op::TensorDesc& a, const op::TensorDesc& b, bool trans_a,
                   bool trans_b);
// An operand with Y's dims or broadcast to them.
LoopOperand LoopsOf(const ProductShape& s, const op::TensorDesc& desc, int index, bool is_output);
// Varies along the columns only, with unit stride.
bool IsColumnVector(const LoopOperand& x, int64_t n);

vector::EpilogueArg ToArg(const LoopOperand& x);
// Bytes from the start of x to the matrix at `at`, an index of the dims before batch and m.
int64_t OuterOffset(const LoopOperand& x, const Dims& at);
// fn(at) for every such index, none where there are no rows.
void ForEachOuter(const LoopNest& nest, FunctionRef<void(const Dims& at)> fn);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_MATMUL_GEOMETRY_H_
