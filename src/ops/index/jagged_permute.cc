#include <numeric>

#include "base/parallel.h"
#include "kernels/gather/gather.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "JaggedPermute";

Status Infer(op::InferContext& c) {
  for (const char* name : {"permute", "from", "to"}) {
    const Dims& dims = c.inputs[static_cast<size_t>(name[0] == 'p' ? 0 : name[0] == 'f' ? 1 : 2)]->dims;
    OPSNN_RETURN_IF_ERROR(CheckRank(kOp, name, dims, 1, 1));
  }
  const Dims want = {c.inputs[0]->dims[0] + 1};
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (c.inputs[i]->dims == want) continue;
    return InvalidArgument("%s: %s has shape %s; allowed: %s, one more than permute", kOp,
                           i == 1 ? "from" : "to", opsnn::ToString(c.inputs[i]->dims).c_str(),
                           opsnn::ToString(want).c_str());
  }
  return SetOutput(c, Desc(DType::kS64, {op::AttrsOf(c.attrs).Int("size", 0)}));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const auto run = [n = c.inputs[0]->dims[0],
                    size = c.outputs[0].dims[0]](const op::RunArgs& args) -> Status {
    const auto *permute = static_cast<const int64_t*>(args.inputs[0]),
               *from = static_cast<const int64_t*>(args.inputs[1]),
               *to = static_cast<const int64_t*>(args.inputs[2]);
    auto* y = static_cast<int64_t*>(args.outputs[0]);
    OPSNN_RETURN_IF_ERROR(kernels::CheckIndices({permute, true, n}, n).WithContext("JaggedPermute: permute"));
    for (int64_t i = 0; i <= n; ++i) {
      const bool fits = i == 0 ? to[0] == 0 : to[i] >= to[i - 1] && to[i] <= size;
      if (fits && (i < n || to[n] == size)) continue;
      return InvalidArgument("%s: to: offset %lld is %lld; allowed: increasing from 0 to %lld", kOp,
                             static_cast<long long>(i), static_cast<long long>(to[i]),
                             static_cast<long long>(size));
    }
    ParallelFor(n, [&](int64_t i, int) {
      const int64_t p = permute[i] < 0 ? permute[i] + n : permute[i];
      std::iota(y + to[i], y + to[i + 1], from[p]);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("ranges", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(JaggedPermute) {
  def.infer = Infer;
  def.plan = Plan;
}
