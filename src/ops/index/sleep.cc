#include <chrono>
#include <thread>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

Status Infer(op::InferContext& c) { return SetOutput(c, Desc(DType::kS64, {})); }

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  constexpr double kCyclesPerNanosecond = 1.65;
  return MakeKernel("wait", [cycles = op::AttrsOf(c.attrs).Int("cycles", 0)](const op::RunArgs& args) {
    std::this_thread::sleep_for(
        std::chrono::duration<double, std::nano>(static_cast<double>(cycles) / kCyclesPerNanosecond));
    *static_cast<int64_t*>(args.outputs[0]) = cycles;
    return OkStatus();
  });
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Sleep) {
  def.infer = Infer;
  def.plan = Plan;
}
