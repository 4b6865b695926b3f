#include <cstdint>

#include "op/pointwise.h"
#include "ops/data/channel_moves.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Split";
constexpr int kChannelAxis = 1;

Result<int> Axis(const op::Attrs* attrs, int rank) {
  return NormalizeAxisOf(kOp, "attribute axis", op::AttrsOf(attrs).Int("axis", 0), rank);
}

// Sizes of the pieces of an axis of `size` (which may be unknown).
Result<std::vector<int64_t>> Sizes(const op::InferContext& c, int64_t size) {
  if (IsGiven(c.inputs, 1)) {
    auto given = ConstantInts(c.inputs, 1);
    if (!given) return std::vector<int64_t>(static_cast<size_t>(c.num_outputs), kUnknownDim);
    bool good = static_cast<int>(given->size()) == c.num_outputs;
    int64_t rest = size == kUnknownDim ? INT64_MAX : size;
    for (const int64_t s : *given) {
      good = good && s >= 0 && s <= rest;
      if (good) rest -= s;
    }
    if (!good || (size != kUnknownDim && rest != 0)) {
      return InvalidArgument(
          "%s: split is %s for %d outputs of an axis of size %lld; allowed: sizes >= 0, one per "
          "output, that add up to the axis",
          kOp, ToString(*given).c_str(), c.num_outputs, static_cast<long long>(size));
    }
    return std::move(*given);
  }
  const int64_t n = op::AttrsOf(c.attrs).Int("num_outputs", c.num_outputs);
  if (n != c.num_outputs) {
    return InvalidArgument("%s: attribute num_outputs is %lld; allowed: %d, the number of outputs", kOp,
                           static_cast<long long>(n), c.num_outputs);
  }
  if (size == kUnknownDim) return std::vector<int64_t>(static_cast<size_t>(n), kUnknownDim);
  const int64_t piece = (size + n - 1) / n;
  std::vector<int64_t> sizes(static_cast<size_t>(n), piece);
  sizes.back() = size - piece * (n - 1);
  if (sizes.back() < 0) {
    return InvalidArgument("%s: an axis of size %lld gives no %lld pieces of %lld and a rest", kOp,
                           static_cast<long long>(size), static_cast<long long>(n),
                           static_cast<long long>(piece));
  }
  return sizes;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  c.outputs.assign(static_cast<size_t>(c.num_outputs), UnknownRank(x.dtype));
  if (!x.known_rank) return OkStatus();
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x.dims, 1, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Sizes(c, x.dims[axis]));
  for (size_t i = 0; i < sizes.size(); ++i) {
    c.outputs[i] = Desc(x.dtype, x.dims);
    c.outputs[i].dims[axis] = sizes[i];
  }
  return OkStatus();
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const int axis, Axis(c.attrs, x.dims.rank()));
  for (const op::TensorDesc& y : c.outputs) OPSNN_RETURN_IF_ERROR(CheckSameBlocks(kOp, x, y));
  int64_t at = 0;
  if (IsBlocked(x) && axis == kChannelAxis) {
    ChannelMoves moves(x);
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const op::TensorDesc& y = c.outputs[i];
      moves.Add(0, x, at, static_cast<int>(i), y, 0, y.dims[axis]);
      at += y.dims[axis];
    }
    return std::move(moves).MakeKernel();
  }
  std::vector<Move> moves;
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const TensorView to = c.outputs[i].View(nullptr);
    Box box = Box::Whole(to.dims);
    box.from_start[axis] = at;
    moves.push_back(MoveBox(x.View(nullptr), to, box, 0, static_cast<int>(i)));
    at += c.outputs[i].dims[axis];
  }
  return MakeMovesKernel(std::move(moves), IsBlocked(x) ? "blocked" : "copies");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Split) {
  def.infer = Infer;
  def.plan = Plan;
}
