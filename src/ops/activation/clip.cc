#include <cmath>
#include <limits>

#include "op/pointwise.h"

namespace opsnn::ops {
namespace {

// Immediates are doubles: a 64-bit bound beyond 2^53 stays an operand.
bool ImmediateBound(const op::ProgramContext& c, size_t i, double* value) {
  return op::ConstantScalar(c, i, value) && (IsFloat(c.input_dtypes[0]) || std::fabs(*value) <= 0x1p53);
}

// One bound as a stage of its own: an operand, or a constant where the Clip stage has no neutral other side.
SlotId Bound(ProgramBuilder& b, StageOp stage, SlotId x, SlotId operand, const double* immediate,
             ComputeType type) {
  return b.Binary(stage, x, immediate != nullptr ? b.Const(*immediate, type) : operand);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Clip) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const ComputeType type = ComputeTypeOf(c.input_dtypes[0]);
    ProgramBuilder b;
    const SlotId x = b.Input(type);
    const bool has_lo = op::HasInput(c, 1), has_hi = op::HasInput(c, 2);
    const SlotId lo_operand = has_lo ? b.Input(type) : kNoSlot;
    const SlotId hi_operand = has_hi ? b.Input(type) : kNoSlot;
    double lo = -std::numeric_limits<double>::infinity(), hi = std::numeric_limits<double>::infinity();
    const bool lo_imm = has_lo && ImmediateBound(c, 1, &lo), hi_imm = has_hi && ImmediateBound(c, 2, &hi);
    // An infinite bound is neutral for floats; integers need both.
    const bool is_float = IsFloat(c.input_dtypes[0]);
    if ((lo_imm || (is_float && !has_lo)) && (hi_imm || (is_float && !has_hi))) {
      b.Output(b.Unary(StageOp::kClip, x, lo, hi));
      return std::move(b).Build();
    }
    SlotId y = x;
    if (has_lo) y = Bound(b, StageOp::kMax, y, lo_operand, lo_imm ? &lo : nullptr, type);
    if (has_hi) y = Bound(b, StageOp::kMin, y, hi_operand, hi_imm ? &hi : nullptr, type);
    b.Output(y == x ? b.Unary(StageOp::kCopy, x) : y);
    return std::move(b).Build();
  };
}
