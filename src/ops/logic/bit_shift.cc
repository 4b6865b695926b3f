#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(BitShift) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const bool left = op::AttrsOf(c.attrs).String("direction", "LEFT") == "LEFT";
    const ComputeType type = ComputeTypeOf(op::PromoteTypes(c.input_dtypes));
    ProgramBuilder b;
    const std::vector<SlotId> in = op::ConvertedInputs(b, c, type);
    b.Output(b.Binary(left ? StageOp::kShiftLeft : StageOp::kShiftRight, in[0], in[1]));
    return std::move(b).Build();
  };
}
