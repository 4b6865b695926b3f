#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/quant/quant_op.h"

namespace opsnn::ops {
namespace {

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(CheckQuantParams("DequantizeLinear", c));
  op::TensorDesc y = Desc(c.inputs[1]->dtype, x.dims);
  y.known_rank = x.known_rank;
  return SetOutput(c, std::move(y));
}

// The difference is taken in integers, where it is exact.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], *zero = InputOrNull(c.inputs, 2);
  const TensorView y = c.outputs[0].View(nullptr);
  ProgramBuilder b;
  const SlotId in = b.Input(ComputeType::kS32), scale = b.Input();
  const SlotId shift = zero != nullptr ? b.Input(ComputeType::kS32) : kNoSlot;
  const SlotId centred = zero != nullptr ? b.Binary(StageOp::kSub, in, shift) : in;
  b.Output(b.Binary(StageOp::kMul, b.Convert(centred, ComputeType::kF32), scale));
  std::vector<op::KernelOperand> inputs = {{0, x.View(nullptr)}, {1, AlongAxis(*c.inputs[1], x, c.attrs)}};
  if (zero != nullptr) inputs.push_back({2, AlongAxis(*zero, x, c.attrs)});
  return op::MakeProgramKernel(std::move(b).Build(), y.dims, std::move(inputs), {{0, y}}, 0, "program");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DequantizeLinear) {
  def.infer = Infer;
  def.plan = Plan;
}
