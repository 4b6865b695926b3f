#include <algorithm>
#include <cstring>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/index/slot.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "AdvanceStep";

Status Infer(op::InferContext& c) {
  const Dims dims = {c.inputs[1]->dims[0]};
  c.outputs.assign(4, Desc(DType::kS64, dims));
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const auto run = [n = c.inputs[1]->dims[0], queries = NumElements(c.inputs[0]->dims),
                    columns = c.inputs[2]->dims[1],
                    block = op::AttrsOf(c.attrs).Int("block_size", 1)](const op::RunArgs& args) -> Status {
    const auto in = [&](int i) { return static_cast<const int64_t*>(args.inputs[i]); };
    const auto at = [&](int i) { return static_cast<int64_t*>(args.outputs[i]); };
    for (int64_t i = 0; i < queries; ++i) {
      if (in(1)[i] >= 0 && in(1)[i] / block < columns) continue;
      return InvalidArgument("%s: lengths: length %lld is %lld; allowed: 0 to %lld, what the blocks hold",
                             kOp, static_cast<long long>(i), static_cast<long long>(in(1)[i]),
                             static_cast<long long>(columns * block - 1));
    }
    for (int64_t i = 0; i < n; ++i) {
      const bool sampled = i < queries;
      const int64_t position = in(1)[i];
      at(0)[i] = sampled ? in(0)[i] : 0;
      at(1)[i] = sampled ? position : 0;
      at(3)[i] = sampled ? SlotOf(in(2)[i * columns + position / block], block, position) : -1;
      at(2)[i] = position + (sampled ? 1 : 0);
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("scalar", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(AdvanceStep) {
  def.infer = Infer;
  def.plan = Plan;
}
