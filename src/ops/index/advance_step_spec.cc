#include <algorithm>
#include <vector>

#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/index/slot.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "AdvanceStepSpec";

Status Infer(op::InferContext& c) {
  c.outputs.assign(4, Desc(DType::kS64, c.inputs[1]->dims));
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const auto run = [n = c.inputs[0]->dims[0], each = c.inputs[0]->dims[1], columns = c.inputs[2]->dims[1],
                    block = op::AttrsOf(c.attrs).Int("block_size", 1)](const op::RunArgs& args) -> Status {
    const auto in = [&](int i) { return static_cast<const int64_t*>(args.inputs[i]); };
    std::vector<int64_t> positions, last;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t* sampled = in(0) + i * each;
      const int64_t count = std::find(sampled, sampled + each, int64_t{-1}) - sampled;
      if (count == 0) {
        return InvalidArgument(
            "%s: sampled: row %lld starts with -1; allowed: a token in front of the first -1", kOp,
            static_cast<long long>(i));
      }
      last.push_back(sampled[count - 1]);
      for (int64_t j = 0; j < each; ++j) {
        positions.push_back(in(1)[i * each + j] + in(4)[i] + 1);
        if (positions.back() >= 0 && positions.back() / block < columns) continue;
        return InvalidArgument(
            "%s: positions: position %lld becomes %lld; allowed: 0 to %lld, what the blocks hold", kOp,
            static_cast<long long>(i * each + j), static_cast<long long>(positions.back()),
            static_cast<long long>(columns * block - 1));
      }
    }
    const auto at = [&](int i) { return static_cast<int64_t*>(args.outputs[i]); };
    for (int64_t i = 0; i < n * each; ++i) {
      const int64_t row = i / each, j = i % each, position = positions[static_cast<size_t>(i)];
      at(0)[i] = j == 0 ? last[static_cast<size_t>(row)] : in(3)[row * (each - 1) + j - 1];
      at(1)[i] = position;
      at(2)[i] = position + 1;
      at(3)[i] = SlotOf(in(2)[row * columns + position / block], block, position);
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("scalar", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(AdvanceStepSpec) {
  def.infer = Infer;
  def.plan = Plan;
}
