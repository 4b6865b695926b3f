#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/einsum/contraction.h"

namespace opsnn::ops {
namespace {

Result<Equation> Parse(op::InputDescs inputs, const op::Attrs* attrs) {
  std::vector<Dims> dims;
  for (const op::TensorDesc* x : inputs) dims.push_back(x->dims);
  return ParseEquation(op::AttrsOf(attrs).String("equation", ""), dims);
}

Status Infer(op::InferContext& c) {
  const DType t = c.inputs[0]->dtype;
  for (const op::TensorDesc* x : c.inputs) {
    if (x->dtype != t) {
      return InvalidArgument("Einsum: inputs have dtypes %s and %s; allowed: one dtype for all", Name(t),
                             Name(x->dtype));
    }
    if (!x->known_rank) return SetOutput(c, UnknownRank(t));
  }
  OPSNN_ASSIGN_OR_RETURN(const Equation e, Parse(c.inputs, c.attrs));
  return SetOutput(c, Desc(t, e.OutputDims()));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const Equation e, Parse(c.inputs, c.attrs));
  const DType t = c.inputs[0]->dtype;
  auto plan = std::make_shared<Contraction>(e, IsHalf(t) ? DType::kF32 : t);
  std::vector<TensorView> views;
  for (const op::TensorDesc* x : c.inputs) views.push_back(x->View(nullptr));
  OPSNN_RETURN_IF_ERROR(plan->Plan(views, c.outputs[0].View(nullptr)));
  const size_t workspace = plan->workspace_bytes();
  return MakeKernel(
      "matrix products", [plan](const op::RunArgs& args) { return plan->Run(args); }, workspace);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Einsum) {
  def.infer = Infer;
  def.plan = Plan;
}
