#include "kernels/gather/gather.h"

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Gather";

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  if (!x.known_rank || !indices.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "data", x.dims, 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const int axis, NormalizeAxisOf(kOp, "attribute axis",
                                                         op::AttrsOf(c.attrs).Int("axis", 0), x.dims.rank()));
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, x.dims.rank() - 1 + indices.dims.rank()));
  Dims dims;
  for (int i = 0; i < axis; ++i) dims.push_back(x.dims[i]);
  for (const int64_t d : indices.dims) dims.push_back(d);
  for (int i = axis + 1; i < x.dims.rank(); ++i) dims.push_back(x.dims[i]);
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  OPSNN_ASSIGN_OR_RETURN(const int axis, NormalizeAxisOf(kOp, "attribute axis",
                                                         op::AttrsOf(c.attrs).Int("axis", 0), x.dims.rank()));
  kernels::GatherParams p;
  for (int i = 0; i < axis; ++i) p.outer *= x.dims[i];
  p.axis_size = x.dims[axis];
  p.inner_bytes = static_cast<int64_t>(SizeOf(x.dtype));
  for (int i = axis + 1; i < x.dims.rank(); ++i) p.inner_bytes *= x.dims[i];
  p.indices.is_s64 = indices.dtype == DType::kS64;
  p.indices.count = NumElements(indices.dims);
  p.indices.from_end = op::AttrsOf(c.attrs).Int("from_end", 1) != 0;
  return Staged(c, MakeKernel("rows", [p](const op::RunArgs& args) {
                  kernels::GatherParams q = p;
                  q.src = args.inputs[0];
                  q.indices.data = args.inputs[1];
                  q.dst = args.outputs[0];
                  return kernels::Gather(q).WithContext("Gather: indices");
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Gather) {
  def.infer = Infer;
  def.plan = Plan;
}
