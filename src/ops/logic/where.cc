#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Where) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    ProgramBuilder b;
    const ComputeType type = ComputeTypeOf(op::PromoteTypes(c.input_dtypes));
    const std::vector<SlotId> in = op::ConvertedInputs(b, c, type);
    b.Output(b.Ternary(StageOp::kSelect, in[0], in[1], in[2]));
    return std::move(b).Build();
  };
}
