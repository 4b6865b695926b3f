#include "ops/quant/quant_op.h"

#include <cmath>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "vector/run.h"

namespace opsnn::ops {

int QuantAxis(const op::Attrs* attrs, int rank) {
  const int64_t axis = op::AttrsOf(attrs).Int("axis", 1);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Status CheckQuantParams(const char* op, const op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  for (size_t i = 1; i <= 2; ++i) {
    const op::TensorDesc* p = InputOrNull(c.inputs, i);
    if (p == nullptr || !p->known_rank || !x.known_rank || !IsKnown(p->dims)) continue;
    const char* what = i == 1 ? "the scale" : "the zero point";
    if (NumElements(p->dims) == 1 && p->dims.rank() <= 1) continue;
    OPSNN_RETURN_IF_ERROR(
        NormalizeAxisOf(op, "attribute axis", op::AttrsOf(c.attrs).Int("axis", 1), x.dims.rank()).status());
    const int64_t size = x.dims[QuantAxis(c.attrs, x.dims.rank())];
    if (p->dims.rank() == 1 && (size == kUnknownDim || p->dims[0] == size)) continue;
    return InvalidArgument(
        "%s: %s has shape %s; allowed: one element, or [%lld], one per slice along the axis", op, what,
        opsnn::ToString(p->dims).c_str(), static_cast<long long>(size));
  }
  return OkStatus();
}

TensorView AlongAxis(const op::TensorDesc& param, const op::TensorDesc& x, const op::Attrs* attrs) {
  return AlongAxis(param, QuantAxis(attrs, x.dims.rank()), x.dims.rank());
}

TensorView AlongAxis(const op::TensorDesc& param, int axis, int rank) {
  const TensorView p = param.View(nullptr);
  TensorView v = p;
  v.dims = Dims::Filled(rank, 1);
  v.strides = Dims::Filled(rank, 0);
  if (p.rank() == 1 && p.dims[0] != 1) {
    v.dims[axis] = p.dims[0];
    v.strides[axis] = p.strides[0];
  }
  return v;
}

IntRange RangeOf(DType t) {
  const int bits = static_cast<int>(SizeOf(t)) * 8;
  if (!Info(t).is_signed) return {0, std::ldexp(1, bits) - 1};
  return {-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1) - 1};
}

Program QuantizeProgram(DType x, DType to, bool has_zero) {
  const IntRange range = RangeOf(to);
  ProgramBuilder b;
  const SlotId in = b.Input(ComputeTypeOf(x)), scale = b.Input();
  const SlotId zero = has_zero ? b.Input() : kNoSlot;
  SlotId q = b.Unary(StageOp::kRound, b.Binary(StageOp::kDiv, b.Convert(in, ComputeType::kF32), scale));
  if (has_zero) q = b.Binary(StageOp::kAdd, q, zero);
  b.Output(b.Unary(StageOp::kClip, q, range.lo, range.hi));
  return std::move(b).Build();
}

Program DequantizeProgram(DType x, bool has_zero) {
  const ComputeType type = SizeOf(x) <= 2 ? ComputeType::kF32 : ComputeType::kS32;
  ProgramBuilder b;
  const SlotId in = b.Input(type), scale = b.Input(), zero = has_zero ? b.Input(type) : kNoSlot;
  const SlotId centred = has_zero ? b.Binary(StageOp::kSub, in, zero) : in;
  const SlotId real = type == ComputeType::kF32 ? centred : b.Convert(centred, ComputeType::kF32);
  b.Output(b.Binary(StageOp::kMul, real, scale));
  return std::move(b).Build();
}

}  // namespace opsnn::ops
