#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(ThresholdedRelu) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const ComputeType type = ComputeTypeOf(c.input_dtypes[0]);
    ProgramBuilder b;
    const SlotId x = b.Input(type);
    const SlotId alpha = b.Const(op::AttrsOf(c.attrs).Float("alpha", 1.0), type);
    b.Output(b.Ternary(StageOp::kSelect, b.Binary(StageOp::kGreater, x, alpha), x, b.Const(0, type)));
    return std::move(b).Build();
  };
}
