#include "ops/quant/rescale.h"

#include <algorithm>

#include "base/int_math.h"
#include "ops/data/data_op.h"
#include "ops/quant/quant_op.h"
#include "tensor/element.h"

namespace opsnn::ops {

Program RescaleProgram(DType y, bool has_bias) {
  const IntRange range = RangeOf(y);
  ProgramBuilder b;
  const SlotId sum = b.Input(ComputeType::kS32), a_scale = b.Input(), b_scale = b.Input(),
               y_scale = b.Input(), zero = b.Input(ComputeType::kS32);
  const SlotId bias = has_bias ? b.Input(ComputeType::kS32) : kNoSlot;
  const auto wide = [&b](SlotId s) { return b.Convert(s, ComputeType::kF64); };
  const SlotId factor =
      b.Binary(StageOp::kDiv, b.Binary(StageOp::kMul, wide(a_scale), wide(b_scale)), wide(y_scale));
  const SlotId whole = has_bias ? b.Binary(StageOp::kAdd, sum, bias) : sum;
  const SlotId q = b.Unary(StageOp::kRound, b.Binary(StageOp::kMul, wide(whole), factor));
  b.Output(b.Unary(StageOp::kClip, b.Binary(StageOp::kAdd, q, wide(zero)), range.lo, range.hi));
  return std::move(b).Build();
}

QuantParam QuantParam::Of(const op::PlanContext& c, int input) {
  QuantParam p;
  const op::TensorDesc* desc = input < 0 ? nullptr : InputOrNull(c.inputs, static_cast<size_t>(input));
  if (!desc) return p;
  const TensorView v = desc->View(nullptr);
  p.input = input, p.dtype = desc->dtype, p.count = v.size();
  for (int i = 0; i < v.rank(); ++i)
    if (v.dims[i] > 1) p.stride = v.strides[i];
  return p;
}

QuantParam QuantParam::OfZero(const op::PlanContext& c, int input) {
  const QuantParam p = Of(c, input);
  const ConstTensor known = p.input < 0 ? nullptr : c.inputs[static_cast<size_t>(input)]->constant;
  if (!known) return p;
  const auto* bytes = known->as<char>();
  const bool zero = std::all_of(bytes, bytes + known->bytes(), [](char b) { return b == 0; });
  return zero ? QuantParam() : p;
}

size_t ZeroBytes(const QuantParam& z) {
  return RoundUp(static_cast<size_t>(z.count) * sizeof(int32_t), kAlignment);
}
gemm::ZeroPoints LoadZeros(const QuantParam& z, const op::RunArgs& args, int32_t* to) {
  if (z.input < 0 || z.count == 0) return {};
  for (int64_t i = 0; i < z.count; ++i) to[i] = static_cast<int32_t>(z.At(args, i));
  return {to, z.count > 1 ? 1 : 0};
}

double QuantParam::At(const op::RunArgs& args, int64_t i) const {
  if (input < 0 || count == 0) return 0;
  const int64_t at = count > 1 ? i * stride : 0;
  return ReadElement(static_cast<const char*>(args.inputs[input]) + at * static_cast<int64_t>(SizeOf(dtype)),
                     dtype);
}

RescaleFactors RescaleFactors::Of(const op::PlanContext& c, const Rescale& r) {
  RescaleFactors f;
  f.a_ = QuantParam::Of(c, r.a_scale), f.b_ = QuantParam::Of(c, r.b_scale);
  f.y_ = QuantParam::Of(c, r.y_scale), f.zero_ = QuantParam::Of(c, r.y_zero);
  return f;
}

void RescaleFactors::Load(const op::RunArgs& args, double* to) const {
  const double y = y_.At(args, 0);
  for (int64_t i = 0; i < count(); ++i) to[i] = a_.At(args, i) * b_.At(args, i) / y;
}

}  // namespace opsnn::ops
