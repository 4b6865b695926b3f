#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(PRelu) {
  op::DefineBinary(def, StageOp::kPRelu);
  def.check = [](const op::InferContext& c) -> Status {
    const op::TensorDesc &x = *c.inputs[0], &slope = *c.inputs[1];
    if (!x.known_rank || !slope.known_rank || !IsKnown(x.dims) || !IsKnown(slope.dims)) return OkStatus();
    auto dims = BroadcastDims(x.dims, slope.dims);
    if (dims.ok() && dims.value() == x.dims) return OkStatus();
    return InvalidArgument(
        "PRelu: input slope has shape %s; allowed: a shape that broadcasts to %s, the shape of X",
        ToString(slope.dims).c_str(), ToString(x.dims).c_str());
  };
}
