#include "op/advice.h"
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

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], *zero = InputOrNull(c.inputs, 2);
  const TensorView y = c.outputs[0].View(nullptr);
  std::vector<op::KernelOperand> inputs = {{0, x.View(nullptr)}, {1, AlongAxis(*c.inputs[1], x, c.attrs)}};
  if (zero != nullptr) inputs.push_back({2, AlongAxis(*zero, x, c.attrs)});
  return op::MakeProgramKernel(DequantizeProgram(x.dtype, zero != nullptr), y.dims, std::move(inputs),
                               {{0, y}}, 0, "program");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DequantizeLinear) {
  def.infer = Infer;
  def.plan = Plan;
}

OPSNN_DEFINE_ADVICE(DequantizeLinear) {
  advice.scaling = [](DType x, DType, bool with_zero) { return DequantizeProgram(x, with_zero); };
  advice.scaling_axis = [](const op::Attrs& attrs, int rank) { return QuantAxis(&attrs, rank); };
}
