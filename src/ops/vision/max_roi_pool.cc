#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MaxRoiPool";
using ll = long long;

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &rois = *c.inputs[1];
  const std::vector<int64_t> shape = op::AttrsOf(c.attrs).Ints("pooled_shape");
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
    return InvalidArgument("%s: attribute pooled_shape is %s; allowed: two sizes from 1", kOp,
                           ToString(shape).c_str());
  }
  if (!x.known_rank || !rois.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 4, 4));
  if (rois.dims.rank() != 2 || (rois.dims[1] != 5 && rois.dims[1] != kUnknownDim)) {
    return InvalidArgument("%s: rois has shape %s; allowed: [n, 5]", kOp, opsnn::ToString(rois.dims).c_str());
  }
  return SetOutput(c, Desc(x.dtype, {rois.dims[0], x.dims[1], shape[0], shape[1]}));
}

// Cell i of `cells` along an axis of the box [first, first + size): pixels [begin, end) of the image.
struct Cell {
  int64_t begin, end;
};
Cell CellOf(int64_t i, int64_t cells, int64_t first, int64_t size, int64_t image) {
  const double step = static_cast<double>(size) / static_cast<double>(cells);
  const auto at = [&](double v) { return std::clamp<int64_t>(static_cast<int64_t>(v) + first, 0, image); };
  return {at(std::floor(static_cast<double>(i) * step)), at(std::ceil(static_cast<double>(i + 1) * step))};
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const Dims x = c.inputs[0]->dims, y = c.outputs[0].dims;
  const double scale = op::AttrsOf(c.attrs).Float("spatial_scale", 1);
  const auto run = [=, t = c.inputs[0]->dtype](const op::RunArgs& args) -> Status {
    const auto elem = static_cast<int64_t>(SizeOf(t));
    const auto roi = [&](int64_t r, int k) {
      return ReadElement(static_cast<const char*>(args.inputs[1]) + (r * 5 + k) * elem, t);
    };
    for (int64_t r = 0; r < y[0]; ++r) {
      if (roi(r, 0) >= 0 && roi(r, 0) < static_cast<double>(x[0])) continue;
      return InvalidArgument("%s: box %lld names image %g; allowed: 0 to %lld", kOp, ll{r}, roi(r, 0),
                             ll{x[0] - 1});
    }
    ParallelFor(y[0] * y[1], [&](int64_t task, int) {
      const int64_t r = task / y[1], channel = task % y[1];
      constexpr double kFar = 1e9;
      int64_t box[4];  // x1, y1, x2, y2, corners included; far beyond every image they make no difference
      bool is_box = true;
      for (int k = 0; k < 4; ++k) {
        const double at = std::round(roi(r, k + 1) * scale);
        is_box = is_box && !std::isnan(at);
        box[k] = is_box ? static_cast<int64_t>(std::clamp(at, -kFar, kFar)) : 0;
      }
      if (!is_box) std::fill(box, box + 4, static_cast<int64_t>(-kFar));  // with NaN: outside of every image
      const int64_t width = std::max<int64_t>(box[2] - box[0] + 1, 1),
                    height = std::max<int64_t>(box[3] - box[1] + 1, 1);
      const int64_t plane = (static_cast<int64_t>(roi(r, 0)) * x[1] + channel) * x[2] * x[3];
      for (int64_t o = 0; o < y[2] * y[3]; ++o) {
        const Cell v = CellOf(o / y[3], y[2], box[1], height, x[2]),
                   h = CellOf(o % y[3], y[3], box[0], width, x[3]);
        double best = v.begin < v.end && h.begin < h.end ? -INFINITY : 0;
        for (int64_t i = v.begin; i < v.end; ++i) {
          for (int64_t j = h.begin; j < h.end; ++j) {
            const double e =
                ReadElement(static_cast<const char*>(args.inputs[0]) + (plane + i * x[3] + j) * elem, t);
            best = e > best || e != e ? e : best;  // NaN stays: no comparison with it is true
          }
        }
        WriteElement(static_cast<char*>(args.outputs[0]) + (task * y[2] * y[3] + o) * elem, t, best);
      }
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("maximum of cells", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MaxRoiPool) {
  def.infer = Infer;
  def.plan = Plan;
}
