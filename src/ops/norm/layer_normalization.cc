#include "op/pointwise.h"
#include "ops/norm/row_norm.h"
#include "program/moments.h"
#include "vector/canonical_programs.h"

namespace opsnn::ops {
namespace {

Program LayerNorm(const op::PlanContext& c) {
  const ComputeType type = ComputeTypeOf(c.inputs[0]->dtype);
  const double epsilon = op::AttrsOf(c.attrs).Float("epsilon", 1e-5);
  const bool gamma = c.inputs.size() > 1 && c.inputs[1] != nullptr;
  const bool beta = c.inputs.size() > 2 && c.inputs[2] != nullptr;
  const bool narrow = IsHalf(c.inputs[0]->dtype);
  if (AllF32(c.inputs) && c.outputs.size() != 2) {
    return vector::LayerNormProgram({epsilon, gamma, beta, c.outputs.size() == 3, narrow});
  }
  ProgramBuilder b;  // the same with conversions, or without InvStdDev
  std::vector<DType> types;
  for (const op::TensorDesc* x : c.inputs) types.push_back(x != nullptr ? x->dtype : c.inputs[0]->dtype);
  const std::vector<SlotId> in = op::ConvertedInputs(b, {types, c.attrs, c.inputs}, type);
  const auto [mean, d, var] = narrow ? AddNarrowRowMoments(b, in[0]) : AddRowMoments(b, in[0]);
  const SlotId rstd = b.Unary(StageOp::kRsqrt, b.Unary(StageOp::kAffine, var, 1, epsilon));
  SlotId y = b.Binary(StageOp::kMul, d, rstd);
  size_t next = 1;
  if (gamma) y = b.Binary(StageOp::kMul, y, in[next++]);
  if (beta) y = b.Binary(StageOp::kAdd, y, in[next]);
  const SlotId outputs[] = {y, mean, rstd};
  for (size_t i = 0; i < c.outputs.size(); ++i) b.Output(outputs[i]);
  return std::move(b).Build();
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(LayerNormalization) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self](op::InferContext& c) { return InferRowNorm(*self, c); };
  def.plan = [self](const op::PlanContext& c) { return PlanRowNorm(*self, c, LayerNorm(c)); };
}
