#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "GatherElements";

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", 0), rank);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  if (!x.known_rank || !indices.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "data", x.dims, 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  bool fits = x.dims.rank() == indices.dims.rank();
  for (int i = 0; fits && i < x.dims.rank(); ++i) {
    const int64_t a = x.dims[i], b = indices.dims[i];
    fits = i == axis || a == kUnknownDim || b == kUnknownDim || b <= a;
  }
  if (!fits) {
    return InvalidArgument("%s: indices has shape %s for data %s; allowed: no larger dim but along axis %d",
                           kOp, opsnn::ToString(indices.dims).c_str(), opsnn::ToString(x.dims).c_str(), axis);
  }
  return SetOutput(c, Desc(x.dtype, indices.dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  kernels::GatherElementsParams p;
  p.elem_bytes = static_cast<int>(SizeOf(x.dtype));
  p.axis = axis;
  p.src_dims = x.dims;
  p.index_dims = indices.dims;
  p.indices = {nullptr, indices.dtype == DType::kS64, NumElements(indices.dims)};
  return Staged(c, MakeKernel("elements", [p](const op::RunArgs& args) {
                  kernels::GatherElementsParams q = p;
                  q.src = args.inputs[0];
                  q.indices.data = args.inputs[1];
                  q.dst = args.outputs[0];
                  return kernels::GatherElements(q).WithContext("GatherElements: indices");
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(GatherElements) {
  def.infer = Infer;
  def.plan = Plan;
}
