// What ConvInteger and QLinearConv share.
#ifndef OPSNN_OPS_QUANT_INTEGER_CONV_H_
#define OPSNN_OPS_QUANT_INTEGER_CONV_H_

#include "op/operator.h"
#include "ops/quant/integer_mat_mul.h"

namespace opsnn::ops {

// The dims of the convolution of x and w (operands a and b), checked with attributes and zero points: one
// value, for w also one per output channel.
Result<op::TensorDesc> InferIntegerConv(const char* op, op::InputDescs inputs, const op::Attrs* attrs,
                                        const IntegerOperands& o, DType out);
// The convolution without the zero points, exactly, in s32; then `rescale`, where given, or the call's fused
// tail.
Result<op::KernelPtr> PlanIntegerConv(const char* op, const op::PlanContext& c, const IntegerOperands& o,
                                      const Rescale* rescale);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_QUANT_INTEGER_CONV_H_
