#include "ops/gradient/softmax_rows.h"

OPSNN_DEFINE_OPERATOR(SoftmaxGrad) {
  ops::DefineSoftmaxRows(def, [](ProgramBuilder& b, ComputeType type) {
    const SlotId dy = b.Input(type), y = b.Input(type);
    const SlotId sum = b.Unary(StageOp::kRowSum, b.Binary(StageOp::kMul, dy, y));
    b.Output(b.Binary(StageOp::kMul, b.Binary(StageOp::kSub, dy, sum), y));
  });
}
