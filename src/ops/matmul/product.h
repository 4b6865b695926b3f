// What MatMul and Gemm share: the geometry of a product and its kernel.
//
//   Y(batch..., m, n) = post(A(batch..., m, k) x B(batch..., k, n))
//
// `post` is a pointwise program over the result: alpha, beta and C of a Gemm, then the fused tail. Operands
// are described by strides over (batch..., m), so that broadcasting is a stride of 0; dimensions that all
// operands walk alike are merged, a batch that shares one B even with m.
#ifndef OPSNN_OPS_MATMUL_PRODUCT_H_
#define OPSNN_OPS_MATMUL_PRODUCT_H_

#include <vector>

#include "op/operator.h"

namespace opsnn::ops {

// Dims and strides of the product before merging.
struct ProductShape {
  Dims batch;
  int64_t m = 1, n = 1, k = 1;
  bool drop_m = false, drop_n = false;  // dimensions of a 1-D operand, which Y does not have
  Dims OutDims() const;
};
// From logical dims; sizes may be unknown. `name` is the operator's, for messages.
Result<ProductShape> ResolveProduct(const char* name, const Dims& a, const Dims& b, bool trans_a,
                                    bool trans_b);

// An addend of a Gemm and the program that applies it.
struct Post {
  bool any = false;
  Program program;          // input 0 is the product
  std::vector<int> inputs;  // operator input of each further program input
};

// A B in FRACTAL_NZ (gemm.h, NzOperand): the matrices that it stands for, with strides of the batch alone.
struct StripWeight {
  op::TensorDesc matrix;
  bool transposed = false;  // the strips hold n x k
};

// `strips`: input 1 is in FRACTAL_NZ and contiguous; f32, f16 or bf16.
Result<op::KernelPtr> PlanProduct(const char* name, const op::PlanContext& c, Post post,
                                  const StripWeight* strips = nullptr);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_MATMUL_PRODUCT_H_
