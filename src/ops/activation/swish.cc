#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Swish) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const double alpha = op::AttrsOf(c.attrs).Float("alpha", 1);
    ProgramBuilder b;
    const SlotId x = b.Input(ComputeTypeOf(c.input_dtypes[0]));
    if (alpha == 1) {
      b.Output(b.Unary(StageOp::kSilu, x));
    } else {
      const SlotId gate = b.Unary(StageOp::kSigmoid, b.Unary(StageOp::kAffine, x, alpha));
      b.Output(b.Binary(StageOp::kMul, x, gate));
    }
    return std::move(b).Build();
  };
}
