#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Mod) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const ComputeType type = ComputeTypeOf(op::PromoteTypes(c.input_dtypes));
    ProgramBuilder b;
    const std::vector<SlotId> in = op::ConvertedInputs(b, c, type);
    const SlotId m = b.Binary(StageOp::kMod, in[0], in[1]);  // sign of A, as C's fmod and %
    if (op::AttrsOf(c.attrs).Int("fmod", 0) != 0) {
      b.Output(m);
      return std::move(b).Build();
    }
    // Move a remainder whose sign is not B's into B's range.
    const SlotId zero = b.Const(0, type);
    const SlotId signs_differ =
        b.Binary(StageOp::kXor, b.Binary(StageOp::kLess, m, zero), b.Binary(StageOp::kLess, in[1], zero));
    const SlotId move = b.Ternary(StageOp::kSelect, m, signs_differ, zero);
    b.Output(b.Ternary(StageOp::kSelect, move, b.Binary(StageOp::kAdd, m, in[1]), m));
    return std::move(b).Build();
  };
}
