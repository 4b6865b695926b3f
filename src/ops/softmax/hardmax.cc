#include <algorithm>
#include <cstring>

#include "kernels/gather/select.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Hardmax";

// A scalar is a row of one element.
Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", -1), std::max(rank, 1));
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(Axis(c.attrs, x.dims.rank()).status());
  return SetOutput(c, Desc(x.dtype, x.dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  kernels::AxisParams p;
  p.dtype = x.dtype;
  for (int i = 0; i < x.dims.rank(); ++i) (i < axis ? p.outer : i == axis ? p.n : p.inner) *= x.dims[i];
  const int64_t rows = p.outer * p.inner;
  const auto run = [p, rows](const op::RunArgs& args) {
    const auto elem = static_cast<int64_t>(SizeOf(p.dtype));
    char* y = static_cast<char*>(args.outputs[0]);
    if (rows * p.n == 0) return OkStatus();
    kernels::AxisParams q = p;
    q.src = args.inputs[0];
    auto* best = static_cast<int64_t*>(args.workspace);
    kernels::ArgExtreme(q, true, false, best);
    std::memset(y, 0, static_cast<size_t>(rows * p.n * elem));  // after reading: y may be x
    for (int64_t r = 0; r < rows; ++r) {
      WriteElement(y + ((r / p.inner * p.n + best[r]) * p.inner + r % p.inner) * elem, p.dtype, 1);
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("arg max and set", run, static_cast<size_t>(rows) * sizeof(int64_t)));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Hardmax) {
  def.infer = Infer;
  def.plan = Plan;
}
