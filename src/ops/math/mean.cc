#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Mean) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const ComputeType type = ComputeTypeOf(op::PromoteTypes(c.input_dtypes));
    ProgramBuilder b;
    const std::vector<SlotId> in = op::ConvertedInputs(b, c, type);
    SlotId sum = in[0];
    for (size_t i = 1; i < in.size(); ++i) sum = b.Binary(StageOp::kAdd, sum, in[i]);
    b.Output(b.Binary(StageOp::kDiv, sum, b.Const(static_cast<double>(in.size()), type)));
    return std::move(b).Build();
  };
}
