#include <vector>

#include "kernels/gather/select.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "TopK";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  op::TensorDesc values = UnknownRank(x.dtype);
  if (x.known_rank) {
    OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 1, kMaxRank));
    OPSNN_ASSIGN_OR_RETURN(
        const int axis,
        NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(c.attrs).Int("axis", -1), x.dims.rank()));
    values = Desc(x.dtype, x.dims);
    values.dims[axis] = kUnknownDim;
    if (const auto k = ConstantInts(c.inputs, 1)) {
      const int64_t n = x.dims[axis];
      if (k->size() != 1 || (*k)[0] < 0 || (n != kUnknownDim && (*k)[0] > n)) {
        return InvalidArgument("%s: K is %s for an axis of size %lld; allowed: one value from 0 to that size",
                               kOp, ToString(*k).c_str(), static_cast<long long>(n));
      }
      values.dims[axis] = (*k)[0];
    }
  }
  c.outputs.assign(2, values);
  c.outputs[1].dtype = DType::kS64;
  if (c.num_outputs < 2) c.outputs.resize(1);
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  OPSNN_ASSIGN_OR_RETURN(const int axis,
                         NormalizeAxisOf(kOp, "attribute axis", attrs.Int("axis", -1), x.dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int64_t> k, RequireInts(kOp, "K", c.inputs, 1));
  kernels::AxisParams p;
  p.dtype = x.dtype;
  p.n = x.dims[axis];
  for (int i = 0; i < axis; ++i) p.outer *= x.dims[i];
  for (int i = axis + 1; i < x.dims.rank(); ++i) p.inner *= x.dims[i];
  const bool largest = attrs.Int("largest", 1) != 0, sorted = attrs.Int("sorted", 1) != 0;
  const bool has_positions = c.outputs.size() > 1;
  const auto scratch = has_positions ? 0 : static_cast<size_t>(p.outer * k[0] * p.inner) * sizeof(int64_t);
  return Staged(c, MakeKernel(
                       "partial sort",
                       [p, k = k[0], largest, sorted, has_positions](const op::RunArgs& args) {
                         kernels::AxisParams q = p;
                         q.src = args.inputs[0];
                         void* positions = has_positions ? args.outputs[1] : nullptr;
                         if (positions == nullptr) positions = args.workspace;
                         kernels::TopK(q, k, largest, sorted, args.outputs[0],
                                       static_cast<int64_t*>(positions));
                         return OkStatus();
                       },
                       scratch));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(TopK) {
  def.infer = Infer;
  def.plan = Plan;
}
