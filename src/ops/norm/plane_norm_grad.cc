#include "kernels/reduce/plane_norm_grad.h"

#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "PlaneNormGrad";

Status Infer(op::InferContext& c) {
  const op::TensorDesc &dy = *c.inputs[0], &x = *c.inputs[1];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input X", x.dims, 2, kMaxRank));
  if (!(dy.dims == x.dims)) {
    return InvalidArgument("%s: input dY has shape %s; allowed: %s, the shape of X", kOp,
                           opsnn::ToString(dy.dims).c_str(), opsnn::ToString(x.dims).c_str());
  }
  static constexpr const char* kNames[] = {"dY", "X", "mean", "rstd", "gamma"};
  for (size_t i = 2; i < c.inputs.size(); ++i) {
    if (!c.inputs[i] || NumElements(c.inputs[i]->dims) == x.dims[1]) continue;
    return InvalidArgument("%s: input %s has shape %s; allowed: %lld values, one per channel", kOp, kNames[i],
                           opsnn::ToString(c.inputs[i]->dims).c_str(), static_cast<long long>(x.dims[1]));
  }
  const op::TensorDesc per_channel = Desc(DType::kF32, {x.dims[1]});
  c.outputs = {Desc(x.dtype, x.dims), per_channel, per_channel};
  c.outputs.resize(static_cast<size_t>(std::clamp(c.num_outputs, 1, 3)));
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[1];
  kernels::PlaneNormGrad plan;
  plan.n = x.dims[0], plan.c = x.dims[1], plan.pixels = 1;
  for (int i = 2; i < x.dims.rank(); ++i) plan.pixels *= x.dims[i];
  plan.type = x.dtype;
  plan.training = op::AttrsOf(c.attrs).Int("training", 1) != 0;
  const bool scaled = IsGiven(c.inputs, 4);
  const size_t outputs = c.outputs.size();
  const auto run = [=](const op::RunArgs& args) -> Status {
    kernels::PlaneNormGrad p = plan;
    p.dy = args.inputs[0], p.x = args.inputs[1];
    p.mean = static_cast<const float*>(args.inputs[2]), p.rstd = static_cast<const float*>(args.inputs[3]);
    if (scaled) p.gamma = static_cast<const float*>(args.inputs[4]);
    p.dx = args.outputs[0];
    if (outputs > 1) p.dgamma = static_cast<float*>(args.outputs[1]);
    if (outputs > 2) p.dbeta = static_cast<float*>(args.outputs[2]);
    kernels::RunPlaneNormGrad(p, args.workspace);
    return OkStatus();
  };
  return Staged(c, MakeKernel("planes: sums of each channel, then the gradient", run,
                              kernels::PlaneNormGradScratch(plan.n, plan.c, plan.pixels)));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(PlaneNormGrad) {
  def.infer = Infer;
  def.plan = Plan;
}
