#include "ops/data/data_op.h"
#include "ops/loss/nll.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "NegativeLogLikelihoodLoss";

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  return Staged(c, MakeKernel("pick and reduce", [p = NllPlan::Make(c)](const op::RunArgs& args) {
                  return p.Run(kOp, args.inputs[0], args.inputs[1], p.weighted ? args.inputs[2] : nullptr,
                               args.outputs[0]);
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(NegativeLogLikelihoodLoss) {
  def.infer = [](op::InferContext& c) { return InferNll(kOp, c); };
  def.plan = Plan;
}
