#include <algorithm>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "ops/pooling/max_mask.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MaxPoolMask";

Result<MaskWindows> WindowsOf(const op::TensorDesc& positions, const op::Attrs* attrs) {
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "positions", positions.dims, 4, 4));
  return MaskWindowsOf(kOp, op::AttrsOf(attrs), {positions.dims[2], positions.dims[3]});
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const MaskWindows w, WindowsOf(x, c.attrs));
  return SetOutput(c, Desc(DType::kS8, {x.dims[0], x.dims[1], w.elements(), w.row()}));
}

void MarkPlane(const MaskWindows& w, const int64_t* positions, uint8_t* bits) {
  std::fill(bits, bits + w.elements() * w.row(), uint8_t{0});
  for (int64_t o = 0; o < w.windows(); ++o) {
    const int64_t y = positions[o] / w.image[1] - w.top(o), x = positions[o] % w.image[1] - w.left(o);
    bits[(y * w.kernel[1] + x) * w.row() + o / 8] |= static_cast<uint8_t>(1 << (o % 8));
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_ASSIGN_OR_RETURN(const MaskWindows w, WindowsOf(x, c.attrs));
  return Staged(c, MakeKernel("mark", [w, planes = x.dims[0] * x.dims[1]](const op::RunArgs& args) {
                  const auto* positions = static_cast<const int64_t*>(args.inputs[0]);
                  auto* bits = static_cast<uint8_t*>(args.outputs[0]);
                  ParallelFor(planes, [&](int64_t p, int) {
                    MarkPlane(w, positions + p * w.windows(), bits + p * w.elements() * w.row());
                  });
                  return OkStatus();
                }));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MaxPoolMask) {
  def.infer = Infer;
  def.plan = Plan;
}
