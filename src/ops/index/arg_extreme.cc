#include "ops/index/arg_extreme.h"

#include "kernels/gather/select.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

Result<int> Axis(const char* name, const op::Attrs* attrs, const Dims& dims) {
  OPSNN_RETURN_IF_ERROR(CheckRank(name, "data", dims, 1, kMaxRank));
  return NormalizeAxisOf(name, "attribute axis", op::AttrsOf(attrs).Int("axis", 0), dims.rank());
}

Status Infer(const char* name, op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(DType::kS64));
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(name, c.attrs, x.dims));
  if (x.dims[axis] == 0) {
    return InvalidArgument("%s: data has shape %s; allowed: at least one element along axis %d", name,
                           opsnn::ToString(x.dims).c_str(), axis);
  }
  Dims dims = x.dims;
  if (op::AttrsOf(c.attrs).Int("keepdims", 1) != 0) {
    dims[axis] = 1;
  } else {
    dims.erase(axis);
  }
  return SetOutput(c, Desc(DType::kS64, dims));
}

Result<op::KernelPtr> Plan(const char* name, bool largest, const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(name, c.attrs, x.dims));
  kernels::AxisParams p;
  p.dtype = x.dtype;
  p.n = x.dims[axis];
  for (int i = 0; i < axis; ++i) p.outer *= x.dims[i];
  for (int i = axis + 1; i < x.dims.rank(); ++i) p.inner *= x.dims[i];
  const bool last = op::AttrsOf(c.attrs).Int("select_last_index", 0) != 0;
  return Staged(c, MakeKernel("scan", [p, largest, last](const op::RunArgs& args) {
                  kernels::AxisParams q = p;
                  q.src = args.inputs[0];
                  kernels::ArgExtreme(q, largest, last, static_cast<int64_t*>(args.outputs[0]));
                  return OkStatus();
                }));
}

}  // namespace

void DefineArgExtreme(op::OpDef& def, const char* name, bool largest) {
  def.infer = [name](op::InferContext& c) { return Infer(name, c); };
  def.plan = [name, largest](const op::PlanContext& c) { return Plan(name, largest, c); };
}

}  // namespace opsnn::ops
