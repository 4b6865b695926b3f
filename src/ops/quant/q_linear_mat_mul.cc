#include "op/advice.h"
#include "ops/data/data_op.h"
#include "ops/quant/integer_mat_mul.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "QLinearMatMul";
constexpr IntegerOperands kOperands = {.a = 0, .a_zero = 2, .b = 3, .b_zero = 5};
constexpr Rescale kRescale = {.a_scale = 1, .b_scale = 4, .y_scale = 6, .y_zero = 7};

Status Infer(op::InferContext& c) {
  for (const int i : {kRescale.y_scale, kRescale.y_zero}) {
    const op::TensorDesc& p = *c.inputs[static_cast<size_t>(i)];
    if (!p.known_rank || !IsKnown(p.dims) || NumElements(p.dims) == 1) continue;
    return InvalidArgument("%s: input %d has shape %s; allowed: one scale and one zero point for all of y",
                           kOp, i, opsnn::ToString(p.dims).c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(op::TensorDesc y,
                         InferIntegerProduct(kOp, c.inputs, kOperands, c.inputs[kRescale.y_zero]->dtype));
  const op::TensorDesc &a = *c.inputs[0], &b = *c.inputs[3];
  if (a.known_rank && b.known_rank) {
    const int64_t rows = a.dims.rank() > 1 ? a.dims[a.dims.rank() - 2] : 1,
                  columns = b.dims.rank() > 1 ? b.dims.back() : 1;
    OPSNN_RETURN_IF_ERROR(CheckQuantParam(kOp, "a_scale", c.inputs, kRescale.a_scale, rows, true));
    OPSNN_RETURN_IF_ERROR(CheckQuantParam(kOp, "b_scale", c.inputs, kRescale.b_scale, columns, false));
  }
  return SetOutput(c, std::move(y));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(QLinearMatMul) {
  def.infer = Infer;
  def.plan = [](const op::PlanContext& c) { return PlanIntegerProduct(c, kOperands, &kRescale); };
}

OPSNN_DEFINE_ADVICE(QLinearMatMul) { advice.steps = StepsOfProduct; }
