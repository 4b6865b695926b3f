#include "ops/gradient/softmax_rows.h"

OPSNN_DEFINE_OPERATOR(SoftmaxCrossEntropy) {
  ops::DefineSoftmaxRows(def, [](ProgramBuilder& b, ComputeType type) {
    const SlotId x = b.Input(type), labels = b.Input(type);
    const SlotId d = b.Binary(StageOp::kSub, x, b.Unary(StageOp::kRowMax, x));
    const SlotId e = b.Unary(StageOp::kExp, d);
    const SlotId sum = b.Unary(StageOp::kRowSum, e);
    const SlotId nothing = b.Const(0, type);
    const SlotId term =
        b.Binary(StageOp::kMul, labels, b.Binary(StageOp::kSub, b.Unary(StageOp::kLog, sum), d));
    b.Output(b.Unary(StageOp::kRowSum, b.Ternary(StageOp::kSelect, labels, term, nothing)));
    b.Output(b.Binary(StageOp::kSub, b.Binary(StageOp::kDiv, e, sum), labels));
  });
  def.infer = [](op::InferContext& c) -> Status {
    const op::TensorDesc &x = *c.inputs[0], &labels = *c.inputs[1];
    for (const op::TensorDesc* t : {&x, &labels}) {
      if (t->dims.rank() == 2) continue;
      return InvalidArgument("SoftmaxCrossEntropy: input %s has %d dims; allowed: 2",
                             t == &x ? "features" : "labels", t->dims.rank());
    }
    if (!(x.dims == labels.dims)) {
      return InvalidArgument(
          "SoftmaxCrossEntropy: input labels has shape %s; allowed: %s, the shape of features",
          ToString(labels.dims).c_str(), ToString(x.dims).c_str());
    }
    op::TensorDesc loss, backprop;
    loss.dtype = backprop.dtype = x.dtype;
    loss.dims = {x.dims[0]};
    backprop.dims = x.dims;
    c.outputs = {loss, backprop};
    return OkStatus();
  };
}
