#include "op/pointwise.h"
#include "ops/norm/axes_norm.h"
#include "program/moments.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MeanVarianceNormalization";

Result<std::vector<int>> Axes(const op::Attrs* attrs, int rank) {
  const std::vector<int64_t> given = op::AttrsOf(attrs).Ints("axes");
  return SortedAxes(kOp, given.empty() ? std::vector<int64_t>{0, 2, 3} : given, rank);
}

Status Infer(op::InferContext& c) {
  if (c.inputs[0]->known_rank) {
    OPSNN_RETURN_IF_ERROR(Axes(c.attrs, c.inputs[0]->dims.rank()).status());
  }
  return InferLikeInput(c);
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  constexpr double kTiny = 1e-9;  // the definition adds it to the deviation
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int> axes, Axes(c.attrs, c.inputs[0]->dims.rank()));
  ProgramBuilder b;
  const SlotId x = b.Input(ComputeTypeOf(c.inputs[0]->dtype));
  const RowMoments row = AddRowMoments(b, x);
  const SlotId deviation = b.Unary(StageOp::kAffine, b.Unary(StageOp::kSqrt, row.variance), 1, kTiny);
  b.Output(b.Binary(StageOp::kDiv, row.centred, deviation));
  return PlanOverAxes(c, axes, std::move(b).Build());
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MeanVarianceNormalization) {
  def.infer = Infer;
  def.plan = Plan;
}
