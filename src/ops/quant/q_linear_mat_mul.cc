#include "ops/data/data_op.h"
#include "ops/quant/integer_mat_mul.h"
#include "ops/quant/quant_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "QLinearMatMul";
constexpr IntegerOperands kOperands = {.a = 0, .a_zero = 2, .b = 3, .b_zero = 5};
constexpr int kAScale = 1, kBScale = 4, kYScale = 6, kYZero = 7;

Status Infer(op::InferContext& c) {
  for (const int i : {kAScale, kBScale, kYScale, kYZero}) {
    const op::TensorDesc& p = *c.inputs[static_cast<size_t>(i)];
    if (!p.known_rank || !IsKnown(p.dims) || (NumElements(p.dims) == 1 && p.dims.rank() <= 1)) continue;
    return Errorf(Code::kNotImplemented,
                  "%s: input %d has shape %s; implemented: one scale and one zero point for all", kOp, i,
                  opsnn::ToString(p.dims).c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(op::TensorDesc y,
                         InferIntegerProduct(kOp, c.inputs, kOperands, c.inputs[kYZero]->dtype));
  return SetOutput(c, std::move(y));
}

// y = saturate(round(product * (a_scale * b_scale / y_scale)) + y_zero_point), in f64, where products are
// exact.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const IntRange range = RangeOf(c.outputs[0].dtype);
  ProgramBuilder b;
  const SlotId product = b.Input(ComputeType::kS32), a = b.Input(), w = b.Input(), y = b.Input(),
               zero = b.Input(ComputeType::kS32);
  const auto wide = [&b](SlotId s) { return b.Convert(s, ComputeType::kF64); };
  const SlotId scale = b.Binary(StageOp::kDiv, b.Binary(StageOp::kMul, wide(a), wide(w)), wide(y));
  const SlotId q = b.Unary(StageOp::kRound, b.Binary(StageOp::kMul, wide(product), scale));
  b.Output(b.Unary(StageOp::kClip, b.Binary(StageOp::kAdd, q, wide(zero)), range.lo, range.hi));
  const ProductFinish finish = {std::move(b).Build(), {kAScale, kBScale, kYScale, kYZero}};
  return PlanIntegerProduct(c, kOperands, &finish);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(QLinearMatMul) {
  def.infer = Infer;
  def.plan = Plan;
}
