#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "GlobalLpPool";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t p = op::AttrsOf(c.attrs).Int("p", 2);
  if (p < 1) {
    return InvalidArgument("%s: attribute p is %lld; allowed: 1 and above", kOp, static_cast<long long>(p));
  }
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 3, kMaxRank));
  Dims dims = Dims::Filled(x.dims.rank(), 1);
  dims[0] = x.dims[0];
  dims[1] = x.dims[1];
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const auto p = static_cast<double>(op::AttrsOf(c.attrs).Int("p", 2));
  const ComputeType type = ComputeTypeOf(x.dtype);
  ProgramBuilder b;
  const SlotId in = b.Input(type);
  SlotId y;
  if (p == 2) {
    y = b.Unary(StageOp::kSqrt, b.Unary(StageOp::kRowSumSquare, in));
  } else {
    SlotId power = b.Unary(StageOp::kAbs, in);
    if (p != 1) power = b.Binary(StageOp::kPow, power, b.Const(p, type));
    y = b.Unary(StageOp::kRowSum, power);
    if (p != 1) y = b.Binary(StageOp::kPow, y, b.Const(1 / p, type, true));
  }
  b.Output(y);
  return op::MakeProgramKernel(std::move(b).Build(), x.dims, {{0, x.View(nullptr)}},
                               {{0, c.outputs[0].View(nullptr)}}, x.dims.rank() - 2, "row program");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(GlobalLpPool) {
  def.infer = Infer;
  def.plan = Plan;
}
