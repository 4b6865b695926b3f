#include "kernels/reduce/row_norm_grad.h"

#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "RowNormGrad";

struct Rows {
  int64_t rows = 1, cols = 1;
  Dims normal;
};
Result<Rows> RowsOf(const op::Attrs* attrs, const Dims& x) {
  OPSNN_ASSIGN_OR_RETURN(
      const int axis, NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", -1), x.rank()));
  Rows r;
  for (int i = 0; i < x.rank(); ++i) {
    (i < axis ? r.rows : r.cols) *= x[i];
    if (i >= axis) r.normal.push_back(x[i]);
  }
  return r;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &dy = *c.inputs[0], &x = *c.inputs[1];
  if (!(dy.dims == x.dims)) {
    return InvalidArgument("%s: input dY has shape %s; allowed: %s, the shape of X", kOp,
                           opsnn::ToString(dy.dims).c_str(), opsnn::ToString(x.dims).c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(const Rows r, RowsOf(c.attrs, x.dims));
  static constexpr const char* kNames[] = {"dY", "X", "rstd", "mean", "gamma"};
  for (size_t i = 2; i < c.inputs.size(); ++i) {
    if (!c.inputs[i]) continue;
    const int64_t want = i < 4 ? r.rows : r.cols;
    if (NumElements(c.inputs[i]->dims) == want) continue;
    return InvalidArgument("%s: input %s has shape %s; allowed: %lld values, one per %s", kOp, kNames[i],
                           opsnn::ToString(c.inputs[i]->dims).c_str(), static_cast<long long>(want),
                           i < 4 ? "row" : "column");
  }
  c.outputs = {Desc(x.dtype, x.dims), Desc(DType::kF32, r.normal), Desc(DType::kF32, r.normal)};
  c.outputs.resize(static_cast<size_t>(std::clamp(c.num_outputs, 1, 3)));
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[1];
  OPSNN_ASSIGN_OR_RETURN(const Rows r, RowsOf(c.attrs, x.dims));
  kernels::RowNormGrad plan;
  plan.rows = r.rows, plan.cols = r.cols, plan.type = x.dtype;
  const bool centred = IsGiven(c.inputs, 3), scaled = IsGiven(c.inputs, 4);
  const size_t outputs = c.outputs.size();
  const auto run = [=](const op::RunArgs& args) -> Status {
    kernels::RowNormGrad p = plan;
    p.dy = args.inputs[0], p.x = args.inputs[1];
    p.rstd = static_cast<const float*>(args.inputs[2]);
    if (centred) p.mean = static_cast<const float*>(args.inputs[3]);
    if (scaled) p.gamma = static_cast<const float*>(args.inputs[4]);
    p.dx = args.outputs[0];
    if (outputs > 1) p.dgamma = static_cast<float*>(args.outputs[1]);
    if (outputs > 2) p.dbeta = static_cast<float*>(args.outputs[2]);
    kernels::RunRowNormGrad(p, args.workspace);
    return OkStatus();
  };
  return Staged(c, MakeKernel("rows: sums along and down, then the gradient", run,
                              kernels::RowNormGradScratch(r.rows, r.cols)));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(RowNormGrad) {
  def.infer = Infer;
  def.plan = Plan;
}
