#include <algorithm>

#include "base/parallel.h"
#include "ops/vision/deformable.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "DeformableAttentionGrad";

Status Infer(op::InferContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const Deformable d, Deformable::Of(kOp, c.inputs));
  static_cast<void>(d);
  c.outputs.clear();
  for (size_t i : {size_t{0}, size_t{3}, size_t{4}})
    c.outputs.push_back(Desc(c.inputs[0]->dtype, c.inputs[i]->dims));
  return OkStatus();
}

// All queries of one batch and head: nobody else writes what they do.
template <typename T>
void Head(const Deformable& d, int64_t b, int64_t h, const op::RunArgs& args) {
  const auto *shapes = static_cast<const int64_t*>(args.inputs[1]),
             *starts = static_cast<const int64_t*>(args.inputs[2]);
  const int64_t base = b * d.keys * d.heads * d.channels, pixel_step = d.heads * d.channels;
  const T* value = static_cast<const T*>(args.inputs[0]) + base + h * d.channels;
  T* to_value = static_cast<T*>(args.outputs[0]) + base + h * d.channels;
  for (int64_t k = 0; k < d.keys; ++k)
    std::fill(to_value + k * pixel_step, to_value + k * pixel_step + d.channels, T{0});
  for (int64_t q = 0; q < d.queries; ++q) {
    const int64_t row = (b * d.queries + q) * d.heads + h;
    const T* grad = static_cast<const T*>(args.inputs[5]) + row * d.channels;
    for (int64_t s = 0; s < d.levels * d.points; ++s) {
      const int64_t level = s / d.points, at = row * d.levels * d.points + s;
      const T* location = static_cast<const T*>(args.inputs[3]) + 2 * at;
      const T weight = static_cast<const T*>(args.inputs[4])[at];
      const Corners<T> c(location[0], location[1], shapes[2 * level], shapes[2 * level + 1], starts[level]);
      T by_weight = 0, by_x = 0, by_y = 0;
      for (int i = 0; i < 4; ++i) {
        if (c.key[i] < 0) continue;
        const T* pixel = value + c.key[i] * pixel_step;
        T* to = to_value + c.key[i] * pixel_step;
        T dot = 0;
        for (int64_t k = 0; k < d.channels; ++k) {
          dot += grad[k] * pixel[k];
          to[k] += grad[k] * (c.share[i] * weight);
        }
        by_weight += dot * c.share[i];
        by_x += dot * c.by_x[i];
        by_y += dot * c.by_y[i];
      }
      T* to_location = static_cast<T*>(args.outputs[1]) + 2 * at;
      to_location[0] = by_x * weight;
      to_location[1] = by_y * weight;
      static_cast<T*>(args.outputs[2])[at] = by_weight;
    }
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  OPSNN_ASSIGN_OR_RETURN(const Deformable d, Deformable::Of(kOp, c.inputs));
  const auto run = [d, t = c.inputs[0]->dtype](const op::RunArgs& args) -> Status {
    OPSNN_RETURN_IF_ERROR(d.CheckLevels(kOp, static_cast<const int64_t*>(args.inputs[1]),
                                        static_cast<const int64_t*>(args.inputs[2])));
    ParallelFor(d.batch * d.heads, [&](int64_t i, int) {
      const int64_t b = i / d.heads, h = i % d.heads;
      return t == DType::kF64 ? Head<double>(d, b, h, args) : Head<float>(d, b, h, args);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("samples", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DeformableAttentionGrad) {
  def.infer = Infer;
  def.plan = Plan;
}
