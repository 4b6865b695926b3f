#include "kernels/gather/select.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "CumSum";

Status Infer(op::InferContext& c) {
  op::TensorDesc y = Desc(c.inputs[0]->dtype, c.inputs[0]->dims);
  y.known_rank = c.inputs[0]->known_rank;
  const auto axis = ConstantInts(c.inputs, 1);
  if (axis && axis->size() != 1) {
    return InvalidArgument("%s: axis has %zu values; allowed: 1", kOp, axis->size());
  }
  if (axis && y.known_rank) {
    OPSNN_RETURN_IF_ERROR(NormalizeAxisOf(kOp, "axis", (*axis)[0], y.dims.rank()).status());
  }
  return SetOutput(c, std::move(y));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int64_t> given, RequireInts(kOp, "axis", c.inputs, 1));
  OPSNN_ASSIGN_OR_RETURN(const int axis, NormalizeAxisOf(kOp, "axis", given.at(0), x.dims.rank()));
  kernels::AxisParams p;
  p.dtype = x.dtype;
  p.n = x.dims[axis];
  for (int i = 0; i < axis; ++i) p.outer *= x.dims[i];
  for (int i = axis + 1; i < x.dims.rank(); ++i) p.inner *= x.dims[i];
  const bool exclusive = op::AttrsOf(c.attrs).Int("exclusive", 0) != 0;
  const bool reverse = op::AttrsOf(c.attrs).Int("reverse", 0) != 0;
  return Staged(c, MakeKernel("scan", [p, exclusive, reverse](const op::RunArgs& args) {
                  kernels::AxisParams q = p;
                  q.src = args.inputs[0];
                  kernels::CumulativeSum(q, exclusive, reverse, args.outputs[0]);
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CumSum) {
  def.infer = Infer;
  def.plan = Plan;
}
