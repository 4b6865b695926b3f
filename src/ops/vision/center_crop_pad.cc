#include <algorithm>
#include <array>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "CenterCropPad";

Result<std::vector<int>> Axes(const op::Attrs* attrs, int rank) {
  std::vector<int64_t> axes = op::AttrsOf(attrs).Ints("axes");
  if (!op::AttrsOf(attrs).Has("axes")) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  return NormalizeAxes(kOp, "attribute axes", axes, rank);
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int> axes, Axes(c.attrs, x.dims.rank()));
  const auto shape = ConstantInts(c.inputs, 1);
  if (shape && (shape->size() != axes.size() ||
                std::any_of(shape->begin(), shape->end(), [](int64_t d) { return d < 0; }))) {
    return InvalidArgument("%s: shape is %s; allowed: %zu sizes from 0, one per axis", kOp,
                           ToString(*shape).c_str(), axes.size());
  }
  Dims dims = x.dims;
  for (size_t i = 0; i < axes.size(); ++i) dims[axes[i]] = shape ? (*shape)[i] : kUnknownDim;
  return SetOutput(c, Desc(x.dtype, dims));
}

// The middle of the input onto the middle of a result of zeros. Where the difference is odd, the extra
// element is at the end, of what is cut off and of what is added.
Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  Box box = Box::Whole(to.dims);
  bool pads = false;
  for (int i = 0; i < to.rank(); ++i) {
    const int64_t extra = to.dims[i] - from.dims[i];
    box.extent[i] = std::min(to.dims[i], from.dims[i]);
    (extra > 0 ? box.to_start : box.from_start)[i] = (extra > 0 ? extra : -extra) / 2;
    pads = pads || extra > 0;
  }
  std::vector<Move> moves;
  if (pads) {
    Move fill;
    fill.from = Move::kZero;
    fill.plan = kernels::CopyPlan(static_cast<int>(SizeOf(to.dtype)), to.dims, Dims::Filled(to.rank(), 0),
                                  to.strides);
    moves.push_back(fill);
  }
  if (NumElements(box.extent) > 0) moves.push_back(MoveBox(from, to, box, 0, 0));
  return MakeMovesKernel(std::move(moves));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(CenterCropPad) {
  def.infer = Infer;
  def.plan = Plan;
}
