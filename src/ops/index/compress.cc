#include <memory>
#include <vector>

#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Compress";

bool Flat(const op::Attrs* attrs) { return !op::AttrsOf(attrs).Has("axis"); }

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", 0), rank);
}

// Positions along the axis that are kept.
Result<std::vector<int64_t>> Kept(const HostTensor& condition, int64_t size) {
  if (condition.dims().rank() != 1 || condition.size() > size) {
    return InvalidArgument(
        "%s: condition has shape %s; allowed: one dim of at most %lld, the size of the axis", kOp,
        opsnn::ToString(condition.dims()).c_str(), static_cast<long long>(size));
  }
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition.size(); ++i) {
    if (condition.as<uint8_t>()[i] != 0) kept.push_back(i);
  }
  return kept;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &condition = *c.inputs[1];
  if (!x.known_rank) {
    return SetOutput(c, Flat(c.attrs) ? Desc(x.dtype, {kUnknownDim}) : UnknownRank(x.dtype));
  }
  Dims dims = x.dims;
  int axis = 0;
  if (Flat(c.attrs)) {
    dims = {NumElements(x.dims)};
  } else {
    OPSNN_ASSIGN_OR_RETURN(axis, Axis(c.attrs, dims.rank()));
  }
  const int64_t size = dims[axis];
  dims[axis] = kUnknownDim;
  if (condition.constant != nullptr && size != kUnknownDim) {
    OPSNN_ASSIGN_OR_RETURN(const std::vector<int64_t> kept, Kept(*condition.constant, size));
    dims[axis] = static_cast<int64_t>(kept.size());
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (c.inputs[1]->constant == nullptr) {
    return InvalidArgument("%s: condition depends on the data; it must be known before running", kOp);
  }
  kernels::GatherParams p;
  p.axis_size = NumElements(x.dims);
  p.inner_bytes = static_cast<int64_t>(SizeOf(x.dtype));
  if (!Flat(c.attrs)) {
    OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
    p.axis_size = x.dims[axis];
    for (int i = 0; i < axis; ++i) p.outer *= x.dims[i];
    for (int i = axis + 1; i < x.dims.rank(); ++i) p.inner_bytes *= x.dims[i];
  }
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> kept, Kept(*c.inputs[1]->constant, p.axis_size));
  const auto shared = std::make_shared<const std::vector<int64_t>>(std::move(kept));
  p.indices = {shared->data(), true, static_cast<int64_t>(shared->size())};
  return Staged(c, MakeKernel("gather", [p, shared](const op::RunArgs& args) {
                  kernels::GatherParams q = p;
                  q.src = args.inputs[0];
                  q.dst = args.outputs[0];
                  return kernels::Gather(q);
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Compress) {
  def.infer = Infer;
  def.plan = Plan;
}
