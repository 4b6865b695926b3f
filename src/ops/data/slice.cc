#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/channel_moves.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Slice";
constexpr int kChannelAxis = 1;

struct Window {
  Dims start, step, extent;  // per axis; extent kUnknownDim where the dim is
};

// start and extent of one axis by the rules of Python.
void Clamp(int64_t size, int64_t start, int64_t end, int64_t step, int64_t* first, int64_t* extent) {
  const auto clamp = [size](int64_t v, int64_t lo, int64_t hi) {
    if (v < 0) v = v < -size ? -1 : v + size;  // -1: before the first
    return std::clamp(v, lo, hi);
  };
  if (step > 0) {
    const int64_t s = clamp(start, 0, size), e = clamp(end, 0, size);
    *first = s;
    *extent = e > s ? 1 + (e - s - 1) / step : 0;
  } else {
    const int64_t s = clamp(start, -1, size - 1), e = clamp(end, -1, size - 1);
    *first = s;
    // The step is negated as an unsigned number: the smallest int64 has no positive counterpart.
    const uint64_t back = 0 - static_cast<uint64_t>(step);
    *extent = s > e ? static_cast<int64_t>(1 + static_cast<uint64_t>(s - e - 1) / back) : 0;
  }
  if (*extent == 0) *first = 0;
}

Status CheckLength(const char* name, const std::vector<int64_t>& v, size_t want) {
  if (v.size() == want) return OkStatus();
  return InvalidArgument("%s: %s has %zu values; allowed: %zu, as many as starts", kOp, name, v.size(), want);
}

// nullopt when starts, ends, axes or steps are only known at run time.
Result<std::optional<Window>> FindWindow(op::InputDescs inputs, const Dims& dims) {
  const auto starts = ConstantInts(inputs, 1), ends = ConstantInts(inputs, 2);
  auto axes = ConstantInts(inputs, 3), steps = ConstantInts(inputs, 4);
  if (!starts || !ends || (IsGiven(inputs, 3) && !axes) || (IsGiven(inputs, 4) && !steps)) {
    return std::optional<Window>();
  }
  const size_t n = starts->size();
  if (!steps) steps = std::vector<int64_t>(n, 1);
  if (!axes) {
    axes = std::vector<int64_t>(n);
    for (size_t i = 0; i < n; ++i) (*axes)[i] = static_cast<int64_t>(i);
  }
  OPSNN_RETURN_IF_ERROR(CheckLength("ends", *ends, n));
  OPSNN_RETURN_IF_ERROR(CheckLength("axes", *axes, n));
  OPSNN_RETURN_IF_ERROR(CheckLength("steps", *steps, n));
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int> axis, NormalizeAxes(kOp, "axes", *axes, dims.rank()));
  const int rank = dims.rank();
  Window w = {Dims::Filled(rank, 0), Dims::Filled(rank, 1), dims};
  for (size_t i = 0; i < n; ++i) {
    const int64_t step = (*steps)[i];
    if (step == 0) return InvalidArgument("%s: steps is %s; allowed: not 0", kOp, ToString(*steps).c_str());
    const int a = axis[i];
    w.step[a] = step;
    if (dims[a] != kUnknownDim) Clamp(dims[a], (*starts)[i], (*ends)[i], step, &w.start[a], &w.extent[a]);
  }
  return std::optional<Window>(w);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Window> window, FindWindow(c.inputs, x.dims));
  if (window) return SetOutput(c, Desc(x.dtype, window->extent));
  Dims dims = x.dims;
  const auto axes = ConstantInts(c.inputs, 3);
  for (int i = 0; i < dims.rank(); ++i) {
    const bool touched = !axes || std::any_of(axes->begin(), axes->end(),
                                              [&](int64_t a) { return (a < 0 ? a + dims.rank() : a) == i; });
    if (touched) dims[i] = kUnknownDim;
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  OPSNN_ASSIGN_OR_RETURN(const std::optional<Window> found, FindWindow(c.inputs, x.dims));
  if (!found)
    return InvalidArgument("%s: starts or ends depend on the data; they must be known before running", kOp);
  const Window& w = *found;
  OPSNN_RETURN_IF_ERROR(CheckSameBlocks(kOp, x, y));
  const TensorView from = x.View(nullptr), to = y.View(nullptr);
  Box box = Box::Whole(to.dims);
  if (!IsBlocked(x)) {
    box.from_start = w.start;
    box.steps = w.step;
    return MakeMovesKernel({MoveBox(from, to, box, 0, 0)});
  }
  for (const int axis : {0, 2, 3}) {
    box.from_start[axis] = w.start[axis];
    box.steps[axis] = w.step[axis];
  }
  const bool all_channels = w.extent[kChannelAxis] == x.dims[kChannelAxis] && w.step[kChannelAxis] == 1;
  if (all_channels) return MakeMovesKernel({MoveBox(from, to, box, 0, 0)}, "blocked");
  const bool only_channels = w.step[kChannelAxis] == 1 && w.extent[0] == x.dims[0] &&
                             w.extent[2] == x.dims[2] && w.extent[3] == x.dims[3] && w.step[0] == 1 &&
                             w.step[2] == 1 && w.step[3] == 1;
  if (only_channels) {
    ChannelMoves moves(x);
    moves.Add(0, x, w.start[kChannelAxis], 0, y, 0, w.extent[kChannelAxis]);
    return std::move(moves).MakeKernel();
  }
  // Lane by lane, or as many lanes as share a block on both sides.
  std::vector<Move> moves;
  const int64_t c0 = x.layout.c0;
  for (int64_t k = 0; k < w.extent[kChannelAxis];) {
    const int64_t source = w.start[kChannelAxis] + k * w.step[kChannelAxis];
    const int64_t left = w.extent[kChannelAxis] - k;
    const int64_t n = w.step[kChannelAxis] == 1 ? std::min({c0 - source % c0, c0 - k % c0, left}) : 1;
    Box piece = box;
    piece.extent[1] = 1;
    piece.extent[4] = n;
    piece.from_start[1] = source / c0;
    piece.from_start[4] = source % c0;
    piece.to_start[1] = k / c0;
    piece.to_start[4] = k % c0;
    moves.push_back(MoveBox(from, to, piece, 0, 0));
    k += n;
  }
  return MakeMovesKernel(std::move(moves), "blocked lanes");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Slice) {
  def.infer = Infer;
  def.plan = Plan;
}
