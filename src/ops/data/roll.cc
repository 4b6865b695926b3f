#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Roll";

// By how much each dim moves towards its end, from 0 to its size - 1.
Result<Dims> FindShifts(const op::Attrs& attrs, const Dims& dims) {
  const std::vector<int64_t> shifts = attrs.Ints("shifts"), axes = attrs.Ints("dims");
  if (shifts.size() != axes.size()) {
    return InvalidArgument("%s: shifts has %zu values; allowed: %zu, as many as dims", kOp, shifts.size(),
                           axes.size());
  }
  Dims by = Dims::Filled(dims.rank(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    OPSNN_ASSIGN_OR_RETURN(const int axis, NormalizeAxisOf(kOp, "attribute dims", axes[i], dims.rank()));
    const int64_t n = dims[axis];
    if (n > 0) by[axis] = (by[axis] + shifts[i] % n + n) % n;
  }
  return by;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(FindShifts(op::AttrsOf(c.attrs), x.dims).status());
  return SetOutput(c, Desc(x.dtype, x.dims));
}

// Every dim that moves is cut in two; the pieces trade places.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  OPSNN_ASSIGN_OR_RETURN(const Dims by, FindShifts(op::AttrsOf(c.attrs), from.dims));
  std::vector<Box> boxes = {Box::Whole(from.dims)};
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (by[axis] == 0) continue;
    const int64_t rest = from.dims[axis] - by[axis];
    std::vector<Box> pieces;
    for (const Box& box : boxes) {
      Box head = box, tail = box;
      head.extent[axis] = rest;
      head.to_start[axis] = by[axis];
      tail.extent[axis] = by[axis];
      tail.from_start[axis] = rest;
      pieces.push_back(head);
      pieces.push_back(tail);
    }
    boxes = std::move(pieces);
  }
  std::vector<Move> moves;
  for (const Box& box : boxes) moves.push_back(MoveBox(from, to, box, 0, 0));
  return MakeMovesKernel(std::move(moves));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Roll) {
  def.infer = Infer;
  def.plan = Plan;
}
