// What MatMulInteger and QLinearMatMul share.
#ifndef OPSNN_OPS_QUANT_INTEGER_MAT_MUL_H_
#define OPSNN_OPS_QUANT_INTEGER_MAT_MUL_H_

#include "op/operator.h"
#include "ops/quant/rescale.h"

namespace opsnn::ops {

// Where the operands of a product are among the inputs; a zero point may be absent (-1 or null).
struct IntegerOperands {
  int a, a_zero, b, b_zero;
};

// The dims of a x b by numpy's rules, checked with the zero points: one value, or one per row of a and column
// of b.
Result<op::TensorDesc> InferIntegerProduct(const char* op, op::InputDescs inputs, const IntegerOperands& o,
                                           DType out);

// A scale or zero point has one value, or one per row of A or column of B, `want` of them.
Status CheckQuantParam(const char* op, const char* what, op::InputDescs inputs, int input, int64_t want,
                       bool by_row);

// Multiplications and additions of such a call.
double StepsOfProduct(op::InputDescs inputs, std::span<const op::TensorDesc* const> outputs,
                      const op::Attrs&);

// a x b without the zero points, exactly, in s32; then `rescale`, where given, and the call's fused tail.
// Without either the result is s32.
Result<op::KernelPtr> PlanIntegerProduct(const op::PlanContext& c, const IntegerOperands& o,
                                         const Rescale* rescale);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_QUANT_INTEGER_MAT_MUL_H_
