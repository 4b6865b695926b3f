#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Expand";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const auto shape = ConstantInts(c.inputs, 1);
  if (!shape || !x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, static_cast<int64_t>(shape->size())));
  for (const int64_t d : *shape) {
    if (d < 0) return InvalidArgument("%s: shape is %s; allowed: sizes >= 0", kOp, ToString(*shape).c_str());
  }
  Result<Dims> dims = BroadcastDims(x.dims, Dims(std::span<const int64_t>(*shape)));
  if (dims.ok()) return SetOutput(c, Desc(x.dtype, *dims));
  return InvalidArgument("%s: shape is %s for an input of shape %s; allowed: shapes that broadcast", kOp,
                         ToString(*shape).c_str(), opsnn::ToString(x.dims).c_str());
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView to = c.outputs[0].View(nullptr), from = BroadcastTo(c.inputs[0]->View(nullptr), to.dims);
  return MakeMovesKernel({MoveBox(from, to, Box::Whole(to.dims), 0, 0)});
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Expand) {
  def.infer = Infer;
  def.plan = Plan;
}
