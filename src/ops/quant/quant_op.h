// What the quantisation operators share: scales and zero points along an axis.
#ifndef OPSNN_OPS_QUANT_QUANT_OP_H_
#define OPSNN_OPS_QUANT_QUANT_OP_H_

#include "op/operator.h"

namespace opsnn::ops {

// Checks that scale, and zero point where given, have one element or one per slice of x along attribute axis.
Status CheckQuantParams(const char* op, const op::InferContext& c);
// A scale or zero point as an operand that broadcasts to x.
TensorView AlongAxis(const op::TensorDesc& param, const op::TensorDesc& x, const op::Attrs* attrs);
// The same for an axis of an operand of `rank`.
TensorView AlongAxis(const op::TensorDesc& param, int axis, int rank);
// The least and greatest value of an integer dtype of at most 16 bits.
struct IntRange {
  double lo, hi;
};
IntRange RangeOf(DType t);
// saturate(round(x / scale) + zero) to the integers `to`: inputs x, scale and, where given, zero, which an
// f32 slot holds exactly. Storing converts.
Program QuantizeProgram(DType x, DType to, bool has_zero);
// (x - zero) * scale of the integers x: inputs x, scale and, where given, zero. The difference is exact:
// those of up to 16 bits are taken in f32, which holds them and their differences.
Program DequantizeProgram(DType x, bool has_zero);
// The axis of scale and zero point, within the dims of x.
int QuantAxis(const op::Attrs* attrs, int rank);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_QUANT_QUANT_OP_H_
