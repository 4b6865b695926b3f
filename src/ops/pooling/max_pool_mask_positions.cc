#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/pooling/max_mask.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MaxPoolMaskPositions";
using ll = long long;

Result<MaskWindows> WindowsOf(const op::TensorDesc& mask, const op::Attrs* attrs) {
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "mask", mask.dims, 4, 4));
  const op::Attrs& a = op::AttrsOf(attrs);
  OPSNN_ASSIGN_OR_RETURN(const MaskWindows w, MaskWindowsOf(kOp, a, a.Ints("pooled")));
  if (mask.dims[2] == w.elements() && mask.dims[3] == w.row()) return w;
  return InvalidArgument("%s: mask has shape %s; allowed: [N,C,%lld,%lld]", kOp,
                         opsnn::ToString(mask.dims).c_str(), ll{w.elements()}, ll{w.row()});
}

Status InferPositions(op::InferContext& c) {
  const op::TensorDesc& mask = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const MaskWindows w, WindowsOf(mask, c.attrs));
  return SetOutput(c, Desc(DType::kS64, {mask.dims[0], mask.dims[1], w.pooled[0], w.pooled[1]}));
}

// The position that the first bit of window o names; -1 where there is none in the image.
int64_t PositionOf(const MaskWindows& w, const uint8_t* bits, int64_t o) {
  for (int64_t k = 0; k < w.elements(); ++k) {
    if (!(bits[k * w.row() + o / 8] >> (o % 8) & 1)) continue;
    const int64_t y = w.top(o) + k / w.kernel[1], x = w.left(o) + k % w.kernel[1];
    return y >= 0 && y < w.image[0] && x >= 0 && x < w.image[1] ? y * w.image[1] + x : -1;
  }
  return -1;
}

Status RunPositions(const MaskWindows& w, int64_t planes, const op::RunArgs& args) {
  const auto* bits = static_cast<const uint8_t*>(args.inputs[0]);
  auto* positions = static_cast<int64_t*>(args.outputs[0]);
  ParallelFor(planes, [&](int64_t p, int) {
    for (int64_t o = 0; o < w.windows(); ++o)
      positions[p * w.windows() + o] = PositionOf(w, bits + p * w.elements() * w.row(), o);
  });
  for (int64_t i = 0; i < planes * w.windows(); ++i) {
    if (positions[i] >= 0) continue;
    return InvalidArgument("%s: mask marks no element of the image for window %lld of plane %lld", kOp,
                           ll{i % w.windows()}, ll{i / w.windows()});
  }
  return OkStatus();
}

Result<op::KernelPtr> PlanPositions(const op::PlanContext& c) {
  const op::TensorDesc& mask = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const MaskWindows w, WindowsOf(mask, c.attrs));
  return Staged(c,
                MakeKernel("find bits", [w, planes = mask.dims[0] * mask.dims[1]](const op::RunArgs& args) {
                  return RunPositions(w, planes, args);
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MaxPoolMaskPositions) {
  def.infer = InferPositions;
  def.plan = PlanPositions;
}
