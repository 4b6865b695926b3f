#include "ops/data/data_op.h"
#include "ops/quant/integer_conv.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "QLinearConv";
constexpr IntegerOperands kOperands = {.a = 0, .a_zero = 2, .b = 3, .b_zero = 5};
constexpr int kXScale = 1, kWScale = 4, kYScale = 6, kYZero = 7, kBias = 8;
constexpr Rescale kRescale = {
    .a_scale = kXScale, .b_scale = kWScale, .y_scale = kYScale, .y_zero = kYZero, .bias = kBias};

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

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(QLinearConv) {
  def.infer = Infer;
  def.plan = [](const op::PlanContext& c) { return PlanIntegerConv(kOp, c, kOperands, &kRescale); };
}
