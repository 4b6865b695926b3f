#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Swish) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const double alpha = op::AttrsOf(c.attrs).Float("alpha", 1);
    ProgramBuilder b;
    const SlotId x = b.Input(ComputeTypeOf(c.input_dtypes[0]));
    if (alpha == 1) {
      b.Output(b.Unary(StageOp::kSilu, x));
    } else if (alpha == 0) {
      b.Output(b.Binary(StageOp::kMul, x, b.Const(0.5, ComputeTypeOf(c.input_dtypes[0]))));
    } else {
      // The stage has the limit 0 at -Inf, where x * sigmoid(alpha * x) is NaN.
      const SlotId silu = b.Unary(StageOp::kSilu, b.Unary(StageOp::kAffine, x, alpha));
      b.Output(b.Binary(StageOp::kDiv, silu, b.Const(alpha, ComputeTypeOf(c.input_dtypes[0]))));
    }
    return std::move(b).Build();
  };
}
