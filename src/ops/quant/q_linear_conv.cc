#include "ops/data/data_op.h"
#include "ops/quant/integer_conv.h"
#include "ops/quant/quant_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "QLinearConv";
constexpr IntegerOperands kOperands = {.a = 0, .a_zero = 2, .b = 3, .b_zero = 5};
constexpr int kXScale = 1, kWScale = 4, kYScale = 6, kYZero = 7, kBias = 8;

Status Infer(op::InferContext& c) {
  const op::TensorDesc& w = *c.inputs[3];
  for (const int i : {kXScale, kWScale, kYScale, kYZero}) {
    const op::TensorDesc& p = *c.inputs[static_cast<size_t>(i)];
    if (!p.known_rank || !IsKnown(p.dims) || (NumElements(p.dims) == 1 && p.dims.rank() <= 1)) continue;
    if (i == kWScale && w.known_rank && p.dims == Dims{w.dims[0]}) continue;
    return InvalidArgument("%s: input %d has shape %s; allowed: one value%s", kOp, i,
                           opsnn::ToString(p.dims).c_str(),
                           i == kWScale ? ", or one per output channel" : "");
  }
  const op::TensorDesc* bias = InputOrNull(c.inputs, kBias);
  if (bias && bias->known_rank && w.known_rank && IsKnown(bias->dims) && IsKnown(w.dims) &&
      bias->dims != Dims{w.dims[0]}) {
    return InvalidArgument("%s: B has shape %s; allowed: [%lld], one value per output channel", kOp,
                           opsnn::ToString(bias->dims).c_str(), static_cast<long long>(w.dims[0]));
  }
  OPSNN_ASSIGN_OR_RETURN(op::TensorDesc y,
                         InferIntegerConv(kOp, c.inputs, c.attrs, kOperands, c.inputs[kYZero]->dtype));
  return SetOutput(c, std::move(y));
}

// y = saturate(round((product + bias) * (x_scale * w_scale / y_scale)) + y_zero_point), in f64.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const IntRange range = RangeOf(c.outputs[0].dtype);
  const bool has_bias = IsGiven(c.inputs, kBias);
  ProgramBuilder b;
  const SlotId product = b.Input(ComputeType::kS32), x = b.Input(), w = b.Input(), y = b.Input(),
               zero = b.Input(ComputeType::kS32);
  const SlotId bias = has_bias ? b.Input(ComputeType::kS32) : kNoSlot;
  const auto wide = [&b](SlotId s) { return b.Convert(s, ComputeType::kF64); };
  const SlotId scale = b.Binary(StageOp::kDiv, b.Binary(StageOp::kMul, wide(x), wide(w)), wide(y));
  const SlotId sum = has_bias ? b.Binary(StageOp::kAdd, product, bias) : product;
  const SlotId q = b.Unary(StageOp::kRound, b.Binary(StageOp::kMul, wide(sum), scale));
  b.Output(b.Unary(StageOp::kClip, b.Binary(StageOp::kAdd, q, wide(zero)), range.lo, range.hi));
  ProductFinish finish = {std::move(b).Build(), {kXScale, kWScale, kYScale, kYZero}};
  if (has_bias) finish.inputs.push_back(kBias);
  return PlanIntegerConv(kOp, c, kOperands, &finish);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(QLinearConv) {
  def.infer = Infer;
  def.plan = Plan;
}
