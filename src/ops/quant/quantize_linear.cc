#include "op/advice.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/data/onnx_dtype.h"
#include "ops/quant/quant_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "QuantizeLinear";

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], *zero = InputOrNull(c.inputs, 2);
  OPSNN_RETURN_IF_ERROR(CheckQuantParams(kOp, c));
  DType t = zero != nullptr ? zero->dtype : DType::kU8;
  if (op::AttrsOf(c.attrs).Int("output_dtype", 0) != 0) {
    OPSNN_ASSIGN_OR_RETURN(t, DTypeAttr(kOp, op::AttrsOf(c.attrs), "output_dtype", t));
    if (IsFloat(t) || t == DType::kBool || SizeOf(t) > 2 || (zero != nullptr && zero->dtype != t)) {
      return InvalidArgument(
          "%s: attribute output_dtype asks for %s; allowed: s8, u8 or s16, as the zero point has", kOp,
          Name(t));
    }
  }
  op::TensorDesc y = Desc(t, x.dims);
  y.known_rank = x.known_rank;
  return SetOutput(c, std::move(y));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], *zero = InputOrNull(c.inputs, 2);
  const TensorView y = c.outputs[0].View(nullptr);
  std::vector<op::KernelOperand> inputs = {{0, x.View(nullptr)}, {1, AlongAxis(*c.inputs[1], x, c.attrs)}};
  if (zero != nullptr) inputs.push_back({2, AlongAxis(*zero, x, c.attrs)});
  return op::MakeProgramKernel(QuantizeProgram(x.dtype, c.outputs[0].dtype, zero != nullptr), y.dims,
                               std::move(inputs), {{0, y}}, 0, "program");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(QuantizeLinear) {
  def.infer = Infer;
  def.plan = Plan;
}

OPSNN_DEFINE_ADVICE(QuantizeLinear) {
  advice.scaling = [](DType x, DType y, bool with_zero) { return QuantizeProgram(x, y, with_zero); };
  advice.scaling_axis = [](const op::Attrs& attrs, int rank) { return QuantAxis(&attrs, rank); };
}
