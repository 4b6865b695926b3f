#include <algorithm>

#include "base/parallel.h"
#include "ops/vision/deformable.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "DeformableAttention";

Status Infer(op::InferContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const Deformable d, Deformable::Of(kOp, c.inputs));
  return SetOutput(c, Desc(c.inputs[0]->dtype, {d.batch, d.queries, d.heads * d.channels}));
}

template <typename T>
void Query(const Deformable& d, int64_t row, const op::RunArgs& args) {
  const T* value = static_cast<const T*>(args.inputs[0]) + row / d.queries * d.keys * d.heads * d.channels;
  const auto *shapes = static_cast<const int64_t*>(args.inputs[1]),
             *starts = static_cast<const int64_t*>(args.inputs[2]);
  T* y = static_cast<T*>(args.outputs[0]) + row * d.heads * d.channels;
  std::fill(y, y + d.heads * d.channels, T{0});
  for (int64_t h = 0; h < d.heads; ++h) {
    for (int64_t s = 0; s < d.levels * d.points; ++s) {
      const int64_t level = s / d.points, at = (row * d.heads + h) * d.levels * d.points + s;
      const T* location = static_cast<const T*>(args.inputs[3]) + 2 * at;
      const T weight = static_cast<const T*>(args.inputs[4])[at];
      const Corners<T> c(location[0], location[1], shapes[2 * level], shapes[2 * level + 1], starts[level]);
      for (int i = 0; i < 4; ++i) {
        if (c.key[i] < 0) continue;
        const T* pixel = value + (c.key[i] * d.heads + h) * d.channels;
        const T share = c.share[i] * weight;
        for (int64_t k = 0; k < d.channels; ++k) y[h * d.channels + k] += share * pixel[k];
      }
    }
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const Deformable d, Deformable::Of(kOp, c.inputs));
  const auto run = [d, t = c.inputs[0]->dtype](const op::RunArgs& args) -> Status {
    OPSNN_RETURN_IF_ERROR(d.CheckLevels(kOp, static_cast<const int64_t*>(args.inputs[1]),
                                        static_cast<const int64_t*>(args.inputs[2])));
    ParallelFor(d.batch * d.queries, [&](int64_t row, int) {
      return t == DType::kF64 ? Query<double>(d, row, args) : Query<float>(d, row, args);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("samples", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DeformableAttention) {
  def.infer = Infer;
  def.plan = Plan;
}
