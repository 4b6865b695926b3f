#include "op/advice.h"
#include "ops/data/data_op.h"
#include "ops/quant/byte_conv.h"
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
  def.plan = [](const op::PlanContext& c) {
    const bool blocked = c.outputs[0].layout.format == Format::kNC1HWC0;
    return blocked ? PlanByteConv(c) : PlanIntegerConv(kOp, c, kOperands, nullptr);
  };
}

OPSNN_DEFINE_ADVICE(ConvInteger) {
  advice.blocks_bytes = [](const op::PlanContext& c) { return ByteConvRefusal(c) == nullptr; };
}
