#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Pad";
constexpr int kValueInput = 2;

struct Pads {
  Dims before, after;
};

Result<std::optional<Pads>> FindPads(op::InputDescs inputs, int rank) {
  const auto pads = ConstantInts(inputs, 1);
  auto axes = ConstantInts(inputs, 3);
  if (!pads || (IsGiven(inputs, 3) && !axes)) return std::optional<Pads>();
  if (!axes) {
    axes.emplace();
    for (int i = 0; i < rank; ++i) axes->push_back(i);
  }
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int> axis, NormalizeAxes(kOp, "axes", *axes, rank));
  if (pads->size() != 2 * axis.size()) {
    return InvalidArgument("%s: pads has %zu values; allowed: %zu, two per axis", kOp, pads->size(),
                           2 * axis.size());
  }
  Pads p = {Dims::Filled(rank, 0), Dims::Filled(rank, 0)};
  for (const int64_t pad : *pads) {
    constexpr int64_t kMost = int64_t{1} << 40;  // far beyond any memory, far below overflow
    if (pad < -kMost || pad > kMost) {
      return InvalidArgument("%s: pads holds %lld; allowed: at most 2^40 in magnitude", kOp,
                             static_cast<long long>(pad));
    }
  }
  for (size_t i = 0; i < axis.size(); ++i) {
    p.before[axis[i]] = (*pads)[i];
    p.after[axis[i]] = (*pads)[i + axis.size()];
  }
  return std::optional<Pads>(p);
}

Status CheckReach(const std::string& mode, int64_t pad, int64_t size, int axis) {
  const int64_t limit = mode == "reflect" ? std::max<int64_t>(size - 1, 0)
                        : mode == "wrap"  ? size
                                          : INT64_MAX;
  if (pad <= limit && (size > 0 || pad <= 0)) return OkStatus();
  return InvalidArgument("%s: pads along axis %d of size %lld is %lld; allowed in mode %s: at most %lld", kOp,
                         axis, static_cast<long long>(size), static_cast<long long>(pad), mode.c_str(),
                         static_cast<long long>(size > 0 ? limit : 0));
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Pads> pads, FindPads(c.inputs, x.dims.rank()));
  if (!pads) return SetOutput(c, Desc(x.dtype, Dims::Filled(x.dims.rank(), kUnknownDim)));
  const std::string mode = op::AttrsOf(c.attrs).String("mode", "constant");
  Dims dims = x.dims;
  for (int i = 0; i < dims.rank(); ++i) {
    if (dims[i] == kUnknownDim) continue;
    // What one side cuts too much does not come out of the other side's border.
    const int64_t cut = std::max<int64_t>(-pads->before[i], 0) + std::max<int64_t>(-pads->after[i], 0);
    dims[i] += pads->before[i] + pads->after[i];
    if (cut > x.dims[i]) {
      return InvalidArgument(
          "%s: pads %lld and %lld cut more than axis %d of size %lld has; allowed: together "
          "at least %lld",
          kOp, static_cast<long long>(pads->before[i]), static_cast<long long>(pads->after[i]), i,
          static_cast<long long>(x.dims[i]), static_cast<long long>(-x.dims[i]));
    }
    if (mode == "constant") continue;
    OPSNN_RETURN_IF_ERROR(CheckReach(mode, pads->before[i], x.dims[i], i));
    OPSNN_RETURN_IF_ERROR(CheckReach(mode, pads->after[i], x.dims[i], i));
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

// One border of one axis: `count` elements of the output from `at` on, over `done` (the part of the output
// that is already written) along the other axes.
struct Border {
  int axis;
  int64_t at, count;
};

// The fill value repeated: a source of strides 0.
Move FillBorder(const TensorView& to, Box box, const Border& b, int value_operand) {
  box.extent[b.axis] = b.count;
  box.to_start[b.axis] = b.at;
  box.from_start = Dims::Filled(to.rank(), 0);
  const TensorView value = {nullptr, to.dtype, to.dims, Dims::Filled(to.rank(), 0)};
  return MoveBox(value, to, box, value_operand, 0);
}

// A border copied from the output itself: element k comes from first + k * step along the axis.
Move CopyBorder(const TensorView& to, Box box, const Border& b, int64_t first, int64_t step) {
  box.extent[b.axis] = b.count;
  box.from_start = box.to_start;
  box.to_start[b.axis] = b.at;
  box.from_start[b.axis] = first;
  box.steps[b.axis] = step;
  return MoveBox(to, to, box, Move::kFromOutput, 0);
}

// The interior is copied first; then the borders axis by axis, each over the whole extent of the axes before
// it, so that corners follow from borders.
void PadAxis(const TensorView& to, const std::string& mode, int axis, int64_t before, int64_t after,
             int value_operand, Box* done, std::vector<Move>* moves) {
  const int64_t begin = std::max<int64_t>(before, 0), size = done->extent[axis], end = begin + size;
  const auto add = [&](const Border& b, int64_t first, int64_t step) {
    if (b.count <= 0) return;
    moves->push_back(mode == "constant" ? FillBorder(to, *done, b, value_operand)
                                        : CopyBorder(to, *done, b, first, step));
  };
  const Border low = {axis, 0, before}, high = {axis, end, after};
  if (mode == "reflect") {
    add(low, 2 * begin, -1);
    add(high, end - 2, -1);
  } else if (mode == "edge") {
    add(low, begin, 0);
    add(high, end - 1, 0);
  } else {  // wrap; constant does not look at the source
    add(low, end - before, 1);
    add(high, begin, 1);
  }
  done->extent[axis] = to.dims[axis];
  done->to_start[axis] = 0;
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Pads> pads, FindPads(c.inputs, from.rank()));
  if (!pads) return InvalidArgument("%s: pads depends on the data; it must be known before running", kOp);
  const std::string mode = op::AttrsOf(c.attrs).String("mode", "constant");
  Box interior = Box::Whole(from.dims);
  for (int i = 0; i < from.rank(); ++i) {
    const int64_t cut = std::max<int64_t>(-pads->before[i], 0),
                  cut_end = std::max<int64_t>(-pads->after[i], 0);
    interior.from_start[i] = cut;
    interior.extent[i] = std::max<int64_t>(from.dims[i] - cut - cut_end, 0);
    interior.to_start[i] = std::max<int64_t>(pads->before[i], 0);
  }
  std::vector<Move> moves = {MoveBox(from, to, interior, 0, 0)};
  Box done = interior;
  done.from_start = Dims::Filled(from.rank(), 0);
  const int value = IsGiven(c.inputs, kValueInput) ? kValueInput : Move::kZero;
  for (int i = 0; i < from.rank(); ++i) {
    PadAxis(to, mode, i, pads->before[i], pads->after[i], value, &done, &moves);
  }
  return MakeMovesKernel(std::move(moves), mode);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Pad) {
  def.infer = Infer;
  def.plan = Plan;
}
