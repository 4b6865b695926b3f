#include "op/pointwise.h"

namespace opsnn {
namespace {

// x * alpha modulo 2^64 or 2^32. Immediates are doubles, so the high and the low half of alpha are multiplied
// in turn.
SlotId TimesInteger(ProgramBuilder& b, SlotId x, int64_t alpha, ComputeType type) {
  if (type != ComputeType::kS64) alpha = static_cast<int32_t>(alpha);
  auto times = [&](SlotId y, int64_t factor) {
    return b.Binary(StageOp::kMul, y, b.Const(static_cast<double>(factor), type));
  };
  constexpr int64_t kExact = int64_t{1} << 53;
  if (alpha >= -kExact && alpha <= kExact) return times(x, alpha);
  const SlotId high = times(times(x, alpha >> 32), int64_t{1} << 32);
  return b.Binary(StageOp::kAdd, high, times(x, alpha & 0xffffffff));
}

}  // namespace
}  // namespace opsnn

OPSNN_DEFINE_OPERATOR(Add) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    const double alpha = attrs.Float("alpha", 1);
    const ComputeType type = ComputeTypeOf(op::PromoteTypes(c.input_dtypes));
    ProgramBuilder b;
    std::vector<SlotId> in = op::ConvertedInputs(b, c, type);
    const int64_t* whole =
        attrs.Has("alpha") ? std::get_if<int64_t>(&attrs.all().find("alpha")->second) : nullptr;
    if (alpha != 1 && whole && (type == ComputeType::kS32 || type == ComputeType::kS64)) {
      in[1] = TimesInteger(b, in[1], *whole, type);
    } else if (alpha != 1) {
      in[1] = b.Binary(StageOp::kMul, in[1], b.Const(alpha, type));
    }
    b.Output(b.Binary(StageOp::kAdd, in[0], in[1]));
    return std::move(b).Build();
  };
}
