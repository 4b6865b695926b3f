#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Add) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const double alpha = op::AttrsOf(c.attrs).Float("alpha", 1);
    const ComputeType type = ComputeTypeOf(op::PromoteTypes(c.input_dtypes));
    ProgramBuilder b;
    std::vector<SlotId> in = op::ConvertedInputs(b, c, type);
    if (alpha != 1) in[1] = b.Binary(StageOp::kMul, in[1], b.Const(alpha, type));
    b.Output(b.Binary(StageOp::kAdd, in[0], in[1]));
    return std::move(b).Build();
  };
}
