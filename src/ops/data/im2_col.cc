#include <algorithm>

#include "op/pointwise.h"
#include "op/window.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Im2Col";

struct Columns {
  op::Window window;
  int64_t out[2] = {0, 0};  // positions along height and width
};

Result<Columns> FindColumns(const op::Attrs& attrs, const Dims& x) {
  Columns c;
  for (const char* name : {"kernel_size", "dilation", "padding", "stride"}) {
    const size_t n = attrs.Ints(name).size();
    if (n != 2) return InvalidArgument("%s: attribute %s has %zu values; allowed: 2", kOp, name, n);
  }
  const std::vector<int64_t> pads = attrs.Ints("padding");
  op::Attrs window;
  window.Set("strides", attrs.Ints("stride"));
  window.Set("dilations", attrs.Ints("dilation"));
  window.Set("pads", std::vector<int64_t>{pads[0], pads[1], pads[0], pads[1]});
  OPSNN_ASSIGN_OR_RETURN(c.window, op::ReadWindow(kOp, window, Dims(attrs.Ints("kernel_size"))));
  for (int axis = 0; axis < 2; ++axis) {
    OPSNN_ASSIGN_OR_RETURN(c.out[axis], op::WindowOutput(kOp, &c.window, axis, x[2 + axis]));
  }
  return c;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "x", x.dims, 4, 4));
  if (!IsKnown(x.dims)) return SetOutput(c, Desc(x.dtype, {x.dims[0], kUnknownDim, kUnknownDim}));
  OPSNN_ASSIGN_OR_RETURN(const Columns columns, FindColumns(op::AttrsOf(c.attrs), x.dims));
  const op::Window& w = columns.window;
  int64_t rows, positions;
  if (__builtin_mul_overflow(w.kernel[0] * w.kernel[1], x.dims[1], &rows) ||
      __builtin_mul_overflow(columns.out[0], columns.out[1], &positions)) {
    return InvalidArgument("%s: the result has more rows or columns than 63 bits hold", kOp);
  }
  return SetOutput(c, Desc(x.dtype, {x.dims[0], rows, positions}));
}

// The positions whose tap lies inside the image: [first, last).
struct Inside {
  int64_t first, last;
};
Inside FindInside(const Columns& c, int axis, int64_t tap, int64_t size) {
  const op::Window& w = c.window;
  const int64_t shift = w.pad_begin[axis] - tap * w.dilation[axis], stride = w.stride[axis];
  const int64_t first = shift > 0 ? std::min(c.out[axis], (shift + stride - 1) / stride) : 0;
  const int64_t last = shift + size > 0 ? std::min(c.out[axis], (shift + size - 1) / stride + 1) : 0;
  return {first, std::max(first, last)};
}

// Rows of the result that belong to one tap, as images [n, c, height, width], and how they are filled.
class TapMoves {
 public:
  TapMoves(const Columns& c, const TensorView& x, const TensorView& y) : c_(c), x_(x), y_(y) {}

  void Add(int64_t i, int64_t j, std::vector<Move>* moves) const {
    const Inside h = FindInside(c_, 0, i, x_.dims[2]), w = FindInside(c_, 1, j, x_.dims[3]);
    Zero(i, j, 0, h.first, 0, c_.out[1], moves);
    Zero(i, j, h.last, c_.out[0], 0, c_.out[1], moves);
    Zero(i, j, h.first, h.last, 0, w.first, moves);
    Zero(i, j, h.first, h.last, w.last, c_.out[1], moves);
    if (h.first >= h.last || w.first >= w.last) return;
    const op::Window& win = c_.window;
    Box box = BoxOf(h.first, h.last, w.first, w.last);
    box.steps = {1, 1, win.stride[0], win.stride[1]};
    box.from_start = {0, 0, h.first * win.stride[0] - win.pad_begin[0] + i * win.dilation[0],
                      w.first * win.stride[1] - win.pad_begin[1] + j * win.dilation[1]};
    Push(x_, i, j, box, 0, moves);
  }

 private:
  Box BoxOf(int64_t top, int64_t bottom, int64_t left, int64_t right) const {
    Box box = Box::Whole({x_.dims[0], x_.dims[1], bottom - top, right - left});
    box.to_start = {0, 0, top, left};
    return box;
  }
  void Zero(int64_t i, int64_t j, int64_t top, int64_t bottom, int64_t left, int64_t right,
            std::vector<Move>* moves) const {
    if (top >= bottom || left >= right) return;
    TensorView zero = x_;
    zero.strides = {0, 0, 0, 0};
    Push(zero, i, j, BoxOf(top, bottom, left, right), Move::kZero, moves);
  }
  void Push(const TensorView& from, int64_t i, int64_t j, const Box& box, int source,
            std::vector<Move>* moves) const {
    const int64_t taps = c_.window.kernel[0] * c_.window.kernel[1], tap = i * c_.window.kernel[1] + j;
    TensorView to = y_;
    to.dims = {x_.dims[0], x_.dims[1], c_.out[0], c_.out[1]};
    to.strides = {y_.strides[0], taps * y_.strides[1], c_.out[1] * y_.strides[2], y_.strides[2]};
    moves->push_back(MoveBox(from, to, box, source, 0));
    moves->back().to_byte += tap * y_.strides[1] * static_cast<int64_t>(SizeOf(y_.dtype));
  }
  const Columns& c_;
  const TensorView &x_, &y_;
};

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView x = c.inputs[0]->View(nullptr), y = c.outputs[0].View(nullptr);
  std::vector<Move> moves;
  if (y.size() == 0) return MakeMovesKernel(std::move(moves), "empty");
  OPSNN_ASSIGN_OR_RETURN(const Columns columns, FindColumns(op::AttrsOf(c.attrs), x.dims));
  const TapMoves taps(columns, x, y);
  for (int64_t i = 0; i < columns.window.kernel[0]; ++i) {
    for (int64_t j = 0; j < columns.window.kernel[1]; ++j) taps.Add(i, j, &moves);
  }
  return MakeMovesKernel(std::move(moves), "one copy per tap");
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Im2Col) {
  def.infer = Infer;
  def.plan = Plan;
}
