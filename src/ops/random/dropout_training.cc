#include <algorithm>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/random/philox.h"
#include "ops/random/random_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "DropoutTraining";

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], *ratio = InputOrNull(c.inputs, 1);
  const op::TensorDesc* training = InputOrNull(c.inputs, 2);
  if (training != nullptr && training->known_rank && IsKnown(training->dims) &&
      NumElements(training->dims) != 1) {
    return InvalidArgument("%s: training_mode has shape %s; allowed: one value", kOp,
                           opsnn::ToString(training->dims).c_str());
  }
  if (ratio != nullptr && ratio->known_rank && IsKnown(ratio->dims) && NumElements(ratio->dims) != 1) {
    return InvalidArgument("%s: ratio has shape %s; allowed: one value", kOp,
                           opsnn::ToString(ratio->dims).c_str());
  }
  op::TensorDesc y = Desc(x.dtype, x.dims);
  y.known_rank = x.known_rank;
  c.outputs.assign(1, y);
  y.dtype = DType::kBool;
  if (c.num_outputs > 1) c.outputs.push_back(y);
  return OkStatus();
}

// Kept elements are scaled, so that the expected value stays. Ratio and mode are read at run time.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  constexpr int64_t kTask = 4096;
  const op::TensorDesc &x = *c.inputs[0], *ratio = InputOrNull(c.inputs, 1);
  const int64_t n = NumElements(x.dims);
  const auto run = [=, t = x.dtype, given = ratio != nullptr, switched = IsGiven(c.inputs, 2),
                    ratio_type = ratio != nullptr ? ratio->dtype : DType::kF32, masks = c.outputs.size() > 1,
                    seed = SeedOf(c.attrs)](const op::RunArgs& args) -> Status {
    const bool off = switched && *static_cast<const uint8_t*>(args.inputs[2]) == 0;
    const double ratio = given ? ReadElement(args.inputs[1], ratio_type) : 0.5, drop = off ? 0 : ratio;
    if (!(drop >= 0 && drop < 1)) {
      return InvalidArgument("%s: ratio is %g; allowed: from 0 to below 1", kOp, drop);
    }
    const double scale = 1 / (1 - drop);
    ParallelFor((n + kTask - 1) / kTask, [&](int64_t task, int) {
      for (int64_t i = task * kTask; i < std::min(n, (task + 1) * kTask); ++i) {
        const int64_t at = i * static_cast<int64_t>(SizeOf(t));
        const bool kept = drop == 0 || PhiloxUniform(seed, static_cast<uint64_t>(i)) >= drop;
        const double v = ReadElement(static_cast<const char*>(args.inputs[0]) + at, t);
        WriteElement(static_cast<char*>(args.outputs[0]) + at, t, kept ? v * scale : 0);
        if (masks && args.outputs[1] != nullptr) static_cast<uint8_t*>(args.outputs[1])[i] = kept;
      }
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("Philox", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DropoutTraining) {
  def.infer = Infer;
  def.plan = Plan;
}
