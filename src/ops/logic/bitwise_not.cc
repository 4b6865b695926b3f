#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(BitwiseNot) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const ComputeType type = ComputeTypeOf(c.input_dtypes[0]);
    ProgramBuilder b;
    const SlotId x = b.Input(type);
    b.Output(b.Binary(StageOp::kBitXor, x, b.Const(-1, type)));  // the store cuts off what is above the type
    return std::move(b).Build();
  };
}
