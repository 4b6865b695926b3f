#include <cstring>

#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/index/scatter_reduction.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "ScatterND";

// The dims that updates must have.
Result<Dims> UpdateDims(const Dims& x, const Dims& indices) {
  const int64_t k = indices.back();
  if (k < 1 || k > x.rank()) {
    return InvalidArgument("%s: indices has tuples of %lld; allowed: 1 to %d", kOp, static_cast<long long>(k),
                           x.rank());
  }
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, indices.rank() - 1 + x.rank() - k));
  Dims dims = indices;
  dims.resize(indices.rank() - 1);
  for (int i = static_cast<int>(k); i < x.rank(); ++i) dims.push_back(x[i]);
  return dims;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1], &updates = *c.inputs[2];
  if (x.dtype == DType::kBool && FindReduction(op::AttrsOf(c.attrs))) {
    return InvalidArgument("%s: data has dtype bool; allowed with a reduction: numbers", kOp);
  }
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  if (indices.known_rank && updates.known_rank && IsKnown(x.dims) && IsKnown(indices.dims) &&
      IsKnown(updates.dims)) {
    OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "data", x.dims, 1, kMaxRank));
    OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "indices", indices.dims, 1, kMaxRank));
    OPSNN_ASSIGN_OR_RETURN(const Dims want, UpdateDims(x.dims, indices.dims));
    if (want != updates.dims) {
      return InvalidArgument("%s: updates has shape %s; allowed: %s", kOp,
                             opsnn::ToString(updates.dims).c_str(), opsnn::ToString(want).c_str());
    }
  }
  return SetOutput(c, Desc(x.dtype, x.dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  const int k = static_cast<int>(indices.dims.back());
  kernels::SliceIndexParams p;
  p.tuples = 1;
  p.slice_bytes = static_cast<int64_t>(SizeOf(x.dtype));
  for (int i = 0; i < indices.dims.rank() - 1; ++i) p.tuples *= indices.dims[i];
  for (int i = 0; i < x.dims.rank(); ++i) {
    if (i < k) {
      p.bounds.push_back(x.dims[i]);
    } else {
      p.slice_bytes *= x.dims[i];
    }
  }
  p.indices = {nullptr, indices.dtype == DType::kS64, NumElements(indices.dims)};
  const auto run = [p, bytes = x.View(nullptr).bytes(), dtype = x.dtype,
                    reduction = FindReduction(op::AttrsOf(c.attrs))](const op::RunArgs& args) {
    kernels::SliceIndexParams q = p;
    q.indices.data = args.inputs[1];
    OPSNN_RETURN_IF_ERROR(kernels::CheckTuples(q).WithContext("ScatterND: indices"));
    void* y = args.outputs[0];
    if (args.inputs[0] != y && bytes > 0) std::memcpy(y, args.inputs[0], bytes);
    if (!reduction) return kernels::ScatterNd(q, args.inputs[2], y);
    return kernels::ScatterNdReduce(q, dtype, *reduction, args.inputs[2], y);
  };
  return Staged(c, MakeKernel("slices", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ScatterND) {
  def.infer = Infer;
  def.plan = Plan;
}
