#include "ops/data/data_op.h"
#include "ops/quant/integer_conv.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "ConvInteger";
constexpr IntegerOperands kOperands = {.a = 0, .a_zero = 2, .b = 1, .b_zero = 3};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ConvInteger) {
  def.infer = [](op::InferContext& c) -> Status {
    OPSNN_ASSIGN_OR_RETURN(op::TensorDesc y,
                           InferIntegerConv(kOp, c.inputs, c.attrs, kOperands, DType::kS32));
    return SetOutput(c, std::move(y));
  };
  def.plan = [](const op::PlanContext& c) { return PlanIntegerConv(kOp, c, kOperands, nullptr); };
}
