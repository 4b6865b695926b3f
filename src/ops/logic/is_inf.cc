#include <limits>

#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(IsInf) {
  def.program = [](const op::ProgramContext& c) -> Result<Program> {
    const bool negative = op::AttrsOf(c.attrs).Int("detect_negative", 1) != 0;
    const bool positive = op::AttrsOf(c.attrs).Int("detect_positive", 1) != 0;
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const ComputeType type = ComputeTypeOf(c.input_dtypes[0]);
    ProgramBuilder b;
    const SlotId x = b.Input(type);
    if (negative && positive) {
      b.Output(b.Unary(StageOp::kIsInf, x));
    } else if (negative || positive) {
      b.Output(b.Binary(StageOp::kEqual, x, b.Const(positive ? kInf : -kInf, type)));
    } else {
      b.Output(b.Const(0, type));
    }
    return std::move(b).Build();
  };
  def.out_dtype = [](const op::ProgramContext&) { return DType::kBool; };
}
