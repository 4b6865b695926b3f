// What MatMulInteger and QLinearMatMul share.
#ifndef OPSNN_OPS_QUANT_INTEGER_MAT_MUL_H_
#define OPSNN_OPS_QUANT_INTEGER_MAT_MUL_H_

#include "op/operator.h"

namespace opsnn::ops {

// Where the operands of a product are among the inputs; a zero point may be absent (-1 or null).
struct IntegerOperands {
  int a, a_zero, b, b_zero;
};

// The dims of a x b by numpy's rules, checked with the zero points: one value, or one per row of a and column
// of b.
Result<op::TensorDesc> InferIntegerProduct(const char* op, op::InputDescs inputs, const IntegerOperands& o,
                                           DType out);

// a x b without the zero points, exactly, in s32; then `finish`, a program of input 0 (the product, s32) and
// further inputs of the call by number and view, whose output 0 is the result. An empty program keeps s32.
struct ProductFinish {
  Program program;
  std::vector<int> inputs;
};
Result<op::KernelPtr> PlanIntegerProduct(const op::PlanContext& c, const IntegerOperands& o,
                                         const ProductFinish* finish);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_QUANT_INTEGER_MAT_MUL_H_
