#include "op/operator.h"
#include "op/pointwise.h"
#include "ops/matmul/product.h"

namespace opsnn::ops {
namespace {

Status InferMatMul(op::InferContext& c) {
  const op::TensorDesc &a = *c.inputs[0], &b = *c.inputs[1];
  op::TensorDesc y;
  y.dtype = a.dtype;
  y.known_rank = a.known_rank && b.known_rank;
  if (y.known_rank) {
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    OPSNN_ASSIGN_OR_RETURN(
        const ProductShape s,
        ResolveProduct("MatMul", a.dims, b.dims, attrs.Int("transA", 0) != 0, attrs.Int("transB", 0) != 0));
    y.dims = s.OutDims();
  }
  c.outputs.assign(1, y);
  return OkStatus();
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MatMul) {
  def.infer = opsnn::ops::InferMatMul;
  def.plan = [](const opsnn::op::PlanContext& c) { return opsnn::ops::PlanProduct("MatMul", c, {}); };
}
