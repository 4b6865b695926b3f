#include "ops/gradient/softmax_rows.h"

OPSNN_DEFINE_OPERATOR(LogSoftmaxGrad) {
  ops::DefineSoftmaxRows(def, [](ProgramBuilder& b, ComputeType type) {
    const SlotId dy = b.Input(type), y = b.Input(type);
    const SlotId sum = b.Unary(StageOp::kRowSum, dy);
    b.Output(b.Binary(StageOp::kSub, dy, b.Binary(StageOp::kMul, b.Unary(StageOp::kExp, y), sum)));
  });
}
