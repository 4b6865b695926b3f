#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Softsign) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const ComputeType type = ComputeTypeOf(c.input_dtypes[0]);
    ProgramBuilder b;
    const SlotId x = b.Input(type);
    const SlotId one = b.Const(1, type);
    b.Output(b.Binary(StageOp::kDiv, x, b.Binary(StageOp::kAdd, one, b.Unary(StageOp::kAbs, x))));
    return std::move(b).Build();
  };
}
