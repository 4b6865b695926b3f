#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Gelu) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const bool tanh = op::AttrsOf(c.attrs).String("approximate", "none") == "tanh";
    ProgramBuilder b;
    const SlotId x = b.Input(ComputeTypeOf(c.input_dtypes[0]));
    b.Output(b.Unary(tanh ? StageOp::kGeluTanh : StageOp::kGeluErf, x));
    return std::move(b).Build();
  };
}
