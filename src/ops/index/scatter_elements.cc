#include <cstring>

#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/index/scatter_reduction.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "ScatterElements";

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", 0), rank);
}

Status CheckDims(const Dims& x, const Dims& indices, const Dims& updates, int axis) {
  if (indices != updates) {
    return InvalidArgument("%s: updates has shape %s; allowed: %s, that of indices", kOp,
                           opsnn::ToString(updates).c_str(), opsnn::ToString(indices).c_str());
  }
  bool fits = x.rank() == indices.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || indices[i] <= x[i];
  if (fits) return OkStatus();
  return InvalidArgument("%s: indices has shape %s for data %s; allowed: no larger dim but along axis %d",
                         kOp, opsnn::ToString(indices).c_str(), opsnn::ToString(x).c_str(), axis);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1], &updates = *c.inputs[2];
  if (x.dtype == DType::kBool && FindReduction(op::AttrsOf(c.attrs))) {
    return InvalidArgument("%s: data has dtype bool; allowed with a reduction: numbers", kOp);
  }
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "data", x.dims, 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  if (indices.known_rank && updates.known_rank && IsKnown(x.dims) && IsKnown(indices.dims) &&
      IsKnown(updates.dims)) {
    OPSNN_RETURN_IF_ERROR(CheckDims(x.dims, indices.dims, updates.dims, axis));
  }
  return SetOutput(c, Desc(x.dtype, x.dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  kernels::ScatterElementsParams p;
  p.dtype = x.dtype;
  OPSNN_ASSIGN_OR_RETURN(p.axis, Axis(c.attrs, x.dims.rank()));
  p.dst_dims = x.dims;
  p.index_dims = indices.dims;
  p.indices = {nullptr, indices.dtype == DType::kS64, NumElements(indices.dims)};
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  p.mean = attrs.String("reduction", "none") == "mean";
  p.include_self = attrs.Int("include_self", 1) != 0;
  const size_t counts =
      p.mean || !p.include_self ? static_cast<size_t>(NumElements(x.dims)) * sizeof(int32_t) : 0;
  const auto run = [p, counts, bytes = static_cast<size_t>(NumElements(x.dims)) * SizeOf(x.dtype),
                    reduction = FindReduction(op::AttrsOf(c.attrs))](const op::RunArgs& args) {
    kernels::ScatterElementsParams q = p;
    q.indices.data = args.inputs[1];
    q.updates = args.inputs[2];
    q.dst = args.outputs[0];
    if (counts > 0) {
      q.counts = static_cast<int32_t*>(args.workspace);
      std::memset(q.counts, 0, counts);
    }
    OPSNN_RETURN_IF_ERROR(
        kernels::CheckIndices(q.indices, q.dst_dims[q.axis]).WithContext("ScatterElements: indices"));
    if (args.inputs[0] != q.dst && bytes > 0) std::memcpy(q.dst, args.inputs[0], bytes);
    return kernels::ScatterElements(q, reduction);
  };
  return Staged(c, MakeKernel("elements", run, counts));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ScatterElements) {
  def.infer = Infer;
  def.plan = Plan;
}
