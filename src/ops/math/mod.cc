#include "op/pointwise.h"

namespace opsnn::ops {
namespace {

// m moved by b into the sign of `like` where it is not zero and has the other sign.
SlotId MatchSign(ProgramBuilder& b, SlotId m, SlotId like, SlotId moved, ComputeType type) {
  const SlotId zero = b.Const(0, type);
  const SlotId differ =
      b.Binary(StageOp::kXor, b.Binary(StageOp::kLess, m, zero), b.Binary(StageOp::kLess, like, zero));
  const SlotId move = b.Ternary(StageOp::kSelect, m, differ, zero);
  return b.Ternary(StageOp::kSelect, move, moved, m);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Mod) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const DType promoted = op::PromoteTypes(c.input_dtypes);
    const ComputeType type = ComputeTypeOf(promoted);
    const bool want_sign_of_a = op::AttrsOf(c.attrs).Int("fmod", 0) != 0;
    ProgramBuilder b;
    const std::vector<SlotId> in = op::ConvertedInputs(b, c, type);
    // The stage gives floats the sign of A, integers that of B.
    SlotId m = b.Binary(StageOp::kMod, in[0], in[1]);
    if (IsFloat(promoted) && !want_sign_of_a) {
      m = MatchSign(b, m, in[1], b.Binary(StageOp::kAdd, m, in[1]), type);
    } else if (!IsFloat(promoted) && want_sign_of_a) {
      m = MatchSign(b, m, in[0], b.Binary(StageOp::kSub, m, in[1]), type);
    }
    b.Output(m);
    return std::move(b).Build();
  };
}
