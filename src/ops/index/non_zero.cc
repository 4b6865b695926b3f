#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "NonZero";

bool IsZero(const char* element, DType t) { return ReadElement(element, t) == 0; }

int64_t Count(const void* data, DType t, int64_t size) {
  const auto step = static_cast<int64_t>(SizeOf(t));
  int64_t count = 0;
  for (int64_t i = 0; i < size; ++i) count += !IsZero(static_cast<const char*>(data) + i * step, t);
  return count;
}

// How many columns the result has follows from the values: they must be known before running.
Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, Desc(DType::kS64, {kUnknownDim, kUnknownDim}));
  const int64_t rank = std::max(x.dims.rank(), 1);  // a scalar counts as one row
  if (x.constant == nullptr) return SetOutput(c, Desc(DType::kS64, {rank, kUnknownDim}));
  return SetOutput(c, Desc(DType::kS64, {rank, Count(x.constant->data(), x.dtype, x.constant->size())}));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t size = NumElements(x.dims), columns = c.outputs[0].dims[1];
  const auto run = [dims = x.dims, dtype = x.dtype, size, columns](const op::RunArgs& args) -> Status {
    const char* from = static_cast<const char*>(args.inputs[0]);
    auto* to = static_cast<int64_t*>(args.outputs[0]);
    int64_t found = 0;
    for (int64_t i = 0; i < size; ++i) {
      if (IsZero(from + i * static_cast<int64_t>(SizeOf(dtype)), dtype)) continue;
      if (found == columns) break;
      int64_t rest = i;
      for (int d = dims.rank() - 1; d >= 0; --d) {
        to[d * columns + found] = rest % dims[d];
        rest /= dims[d];
      }
      if (dims.rank() == 0) to[found] = 0;
      ++found;
    }
    if (found == columns && Count(from, dtype, size) == columns) return OkStatus();
    return Errorf(Code::kInternal, "%s: planned for %lld values other than 0, which are no longer there", kOp,
                  static_cast<long long>(columns));
  };
  return Staged(c, MakeKernel("scan", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(NonZero) {
  def.infer = Infer;
  def.plan = Plan;
}
