#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "GatherND";

int BatchDims(const op::Attrs* attrs) { return static_cast<int>(op::AttrsOf(attrs).Int("batch_dims", 0)); }

Status CheckDims(const Dims& x, const Dims& indices, int64_t batch_dims) {
  if (batch_dims < 0 || batch_dims >= x.rank() || batch_dims >= indices.rank()) {
    return InvalidArgument(
        "%s: attribute batch_dims is %lld; allowed: 0 or more, below the ranks of data (%d) and "
        "indices (%d)",
        kOp, static_cast<long long>(batch_dims), x.rank(), indices.rank());
  }
  for (int i = 0; i < batch_dims; ++i) {
    if (x[i] == indices[i] || x[i] == kUnknownDim || indices[i] == kUnknownDim) continue;
    return InvalidArgument("%s: indices has shape %s for data %s; allowed: the same first %lld dims", kOp,
                           opsnn::ToString(indices).c_str(), opsnn::ToString(x).c_str(),
                           static_cast<long long>(batch_dims));
  }
  const int64_t k = indices.back();
  if (k == kUnknownDim || (k >= 1 && k <= x.rank() - batch_dims)) return OkStatus();
  return InvalidArgument("%s: indices has tuples of %lld; allowed: 1 to %lld", kOp, static_cast<long long>(k),
                         static_cast<long long>(x.rank() - batch_dims));
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  if (!x.known_rank || !indices.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "data", x.dims, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "indices", indices.dims, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(CheckDims(x.dims, indices.dims, op::AttrsOf(c.attrs).Int("batch_dims", 0)));
  if (indices.dims.back() == kUnknownDim) return SetOutput(c, UnknownRank(x.dtype));
  const int first = BatchDims(c.attrs) + static_cast<int>(indices.dims.back());
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, indices.dims.rank() - 1 + x.dims.rank() - first));
  Dims dims = indices.dims;
  dims.resize(indices.dims.rank() - 1);
  for (int i = first; i < x.dims.rank(); ++i) dims.push_back(x.dims[i]);
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &indices = *c.inputs[1];
  const int batch_dims = BatchDims(c.attrs), k = static_cast<int>(indices.dims.back());
  kernels::SliceIndexParams p;
  p.tuples = 1;
  p.slice_bytes = static_cast<int64_t>(SizeOf(x.dtype));
  for (int i = 0; i < batch_dims; ++i) p.batches *= x.dims[i];
  for (int i = batch_dims; i < indices.dims.rank() - 1; ++i) p.tuples *= indices.dims[i];
  for (int i = 0; i < k; ++i) p.bounds.push_back(x.dims[batch_dims + i]);
  for (int i = batch_dims + k; i < x.dims.rank(); ++i) p.slice_bytes *= x.dims[i];
  p.indices = {nullptr, indices.dtype == DType::kS64, NumElements(indices.dims)};
  return Staged(
      c, MakeKernel("slices", [p](const op::RunArgs& args) {
        kernels::SliceIndexParams q = p;
        q.indices.data = args.inputs[1];
        return kernels::GatherNd(q, args.inputs[0], args.outputs[0]).WithContext("GatherND: indices");
      }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(GatherND) {
  def.infer = Infer;
  def.plan = Plan;
}
