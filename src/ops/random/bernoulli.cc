#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/data/onnx_dtype.h"
#include "ops/random/philox.h"
#include "ops/random/random_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const DType t, DTypeAttr("Bernoulli", op::AttrsOf(c.attrs), "dtype", x.dtype));
  op::TensorDesc y = Desc(t, x.dims);
  y.known_rank = x.known_rank;
  return SetOutput(c, std::move(y));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const DType t = c.inputs[0]->dtype;
  return PlanDraw(
      c,
      [t](uint64_t seed, uint64_t i, const void* x) {
        return PhiloxUniform(seed, i) < ReadElement(x, t) ? 1.0 : 0.0;
      },
      t);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Bernoulli) {
  def.infer = Infer;
  def.plan = Plan;
}
