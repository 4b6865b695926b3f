#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/norm/axes_norm.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "LpNormalization";

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", -1), rank);
}

Status Infer(op::InferContext& c) {
  if (c.inputs[0]->known_rank) {
    OPSNN_RETURN_IF_ERROR(Axis(c.attrs, c.inputs[0]->dims.rank()).status());
  }
  return InferLikeInput(c);
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, c.inputs[0]->dims.rank()));
  const ComputeType type = ComputeTypeOf(c.inputs[0]->dtype);
  ProgramBuilder b;
  const SlotId x = b.Input(type);
  const SlotId norm = op::AttrsOf(c.attrs).Int("p", 2) == 1
                          ? b.Unary(StageOp::kRowSum, b.Unary(StageOp::kAbs, x))
                          : b.Unary(StageOp::kSqrt, b.Unary(StageOp::kRowSumSquare, x));
  // A row of zeros is divided by 1.
  const SlotId divisor = b.Ternary(StageOp::kSelect, norm, norm, b.Const(1, type, true));
  b.Output(b.Binary(StageOp::kDiv, x, divisor));
  return PlanOverAxes(c, {axis}, std::move(b).Build());
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(LpNormalization) {
  def.infer = Infer;
  def.plan = Plan;
}
