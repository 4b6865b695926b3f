#include "ops/data/data_op.h"
#include "ops/quant/integer_mat_mul.h"

namespace opsnn::ops {
namespace {

constexpr IntegerOperands kOperands = {.a = 0, .a_zero = 2, .b = 1, .b_zero = 3};

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MatMulInteger) {
  def.infer = [](op::InferContext& c) -> Status {
    OPSNN_ASSIGN_OR_RETURN(op::TensorDesc y,
                           InferIntegerProduct("MatMulInteger", c.inputs, kOperands, DType::kS32));
    return SetOutput(c, std::move(y));
  };
  def.plan = [](const op::PlanContext& c) { return PlanIntegerProduct(c, kOperands, nullptr); };
}
