#include "op/advice.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/quant/integer_mat_mul.h"

namespace opsnn::ops {
namespace {

constexpr IntegerOperands kOperands = {.a = 0, .a_zero = 2, .b = 1, .b_zero = 3};

Status CheckMatrix(const char* name, const op::TensorDesc& d) {
  if (!d.known_rank || d.dims.rank() == 2) return OkStatus();
  return InvalidArgument("MatMulInteger: %s has shape %s; allowed: rank 2, as it stands for a Gemm", name,
                         opsnn::ToString(d.dims).c_str());
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MatMulInteger) {
  def.infer = [](op::InferContext& c) -> Status {
    if (op::AttrsOf(c.attrs).Int("matrices", 0) != 0) {
      OPSNN_RETURN_IF_ERROR(CheckMatrix("A", *c.inputs[0]));
      OPSNN_RETURN_IF_ERROR(CheckMatrix("B", *c.inputs[1]));
    }
    OPSNN_ASSIGN_OR_RETURN(op::TensorDesc y,
                           InferIntegerProduct("MatMulInteger", c.inputs, kOperands, DType::kS32));
    return SetOutput(c, std::move(y));
  };
  def.plan = [](const op::PlanContext& c) { return PlanIntegerProduct(c, kOperands, nullptr); };
}

OPSNN_DEFINE_ADVICE(MatMulInteger) { advice.steps = StepsOfProduct; }
