#include "op/pointwise.h"
#include "ops/norm/row_norm.h"
#include "vector/canonical_programs.h"

namespace opsnn::ops {
namespace {

Program RmsNorm(const op::PlanContext& c) {
  const ComputeType type = ComputeTypeOf(c.inputs[0]->dtype);
  const double epsilon = op::AttrsOf(c.attrs).Float("epsilon", 1e-5);
  if (AllF32(c.inputs)) return vector::RmsNormProgram({.eps = epsilon, .gamma = true});
  const DType types[] = {c.inputs[0]->dtype, c.inputs[1]->dtype};
  ProgramBuilder b;  // the same with conversions
  const std::vector<SlotId> in = op::ConvertedInputs(b, {types, c.attrs, c.inputs}, type);
  const SlotId mean = b.Unary(StageOp::kRowMean, b.Unary(StageOp::kSquare, in[0]));
  const SlotId scale = b.Unary(StageOp::kRsqrt, b.Unary(StageOp::kAffine, mean, 1, epsilon));
  b.Output(b.Binary(StageOp::kMul, b.Binary(StageOp::kMul, in[0], scale), in[1]));
  return std::move(b).Build();
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(RMSNormalization) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self](op::InferContext& c) { return InferRowNorm(*self, c); };
  def.plan = [self](const op::PlanContext& c) { return PlanRowNorm(*self, c, RmsNorm(c)); };
}
