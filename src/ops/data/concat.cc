#include "op/pointwise.h"
#include "ops/data/channel_moves.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Concat";
constexpr int kChannelAxis = 1;

Status CheckMember(const op::InferContext& c, size_t i) {
  const op::TensorDesc &x = *c.inputs[i], &first = *c.inputs[0];
  if (x.dtype != first.dtype) {
    return InvalidArgument("%s: inputs[%zu] has dtype %s; allowed: %s, the dtype of inputs[0]", kOp, i,
                           Name(x.dtype), Name(first.dtype));
  }
  if (x.known_rank && first.known_rank && x.dims.rank() != first.dims.rank()) {
    return InvalidArgument("%s: inputs[%zu] has rank %d; allowed: %d, the rank of inputs[0]", kOp, i,
                           x.dims.rank(), first.dims.rank());
  }
  return OkStatus();
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& first = *c.inputs[0];
  for (size_t i = 1; i < c.inputs.size(); ++i) OPSNN_RETURN_IF_ERROR(CheckMember(c, i));
  for (const op::TensorDesc* x : c.inputs) {
    if (!x->known_rank) return SetOutput(c, UnknownRank(x->dtype));
  }
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "inputs[0]", first.dims, 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(
      const int axis,
      NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(c.attrs).Int("axis", 0), first.dims.rank()));
  Dims dims = first.dims;
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    const Dims& d = c.inputs[i]->dims;
    for (int k = 0; k < dims.rank(); ++k) {
      if (k == axis) {
        if (dims[k] == kUnknownDim || d[k] == kUnknownDim) {
          dims[k] = kUnknownDim;
        } else if (__builtin_add_overflow(dims[k], d[k], &dims[k])) {
          return InvalidArgument("%s: the sizes along axis %d add up to more than 63 bits hold", kOp, axis);
        }
      } else if (dims[k] == kUnknownDim) {
        dims[k] = d[k];
      } else if (d[k] != kUnknownDim && d[k] != dims[k]) {
        return InvalidArgument("%s: inputs[%zu] has shape %s; allowed: %s except along axis %d", kOp, i,
                               ToString(d).c_str(), ToString(first.dims).c_str(), axis);
      }
    }
  }
  return SetOutput(c, Desc(first.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& y = c.outputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int axis, NormalizeAxisOf(kOp, "attribute axis",
                                                         op::AttrsOf(c.attrs).Int("axis", 0), y.dims.rank()));
  for (const op::TensorDesc* x : c.inputs) OPSNN_RETURN_IF_ERROR(CheckSameBlocks(kOp, *x, y));
  int64_t at = 0;
  if (IsBlocked(y) && axis == kChannelAxis) {
    ChannelMoves moves(y);
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const op::TensorDesc& x = *c.inputs[i];
      moves.Add(static_cast<int>(i), x, 0, 0, y, at, x.dims[axis]);
      at += x.dims[axis];
    }
    return std::move(moves).MakeKernel();
  }
  std::vector<Move> moves;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const TensorView from =
        c.inputs[i]->View(nullptr);  // N, H and W keep their place in the stored dims of blocks
    Box box = Box::Whole(from.dims);
    box.to_start[axis] = at;
    moves.push_back(MoveBox(from, y.View(nullptr), box, static_cast<int>(i), 0));
    at += c.inputs[i]->dims[axis];
  }
  return MakeMovesKernel(std::move(moves), IsBlocked(y) ? "blocked" : "copies");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Concat) {
  def.infer = Infer;
  def.plan = Plan;
}
