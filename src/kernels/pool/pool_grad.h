// Gradients of pools. Every plane is one task's, so that nothing is added by two threads and the order of
// additions is that of the windows. Halves are added up in f32 and rounded once.
#ifndef OPSNN_KERNELS_POOL_POOL_GRAD_H_
#define OPSNN_KERNELS_POOL_POOL_GRAD_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace opsnn::pool {

// dx[p, position[p, o]] += dy[p, o] for every window o; all else is 0.
struct MaxPoolGrad {
  int64_t planes = 0, windows = 0, pixels = 0;  // per plane
  DType type = DType::kF32;                     // of dy and dx: f32, f16 or bf16
  bool wide_positions = false;                  // s64, else s32
  const void *dy = nullptr, *positions = nullptr;
  void* dx = nullptr;
};
// A position outside [0, pixels) is an error that names it; nothing is written then.
Status RunMaxPoolGrad(const MaxPoolGrad& p);

// The windows along one axis: window o covers [begin[o], end[o]), where neither goes back from one to the
// next, and spreads its gradient times weight[o].
struct WindowAxis {
  int64_t size = 1;  // of the image
  std::vector<int64_t> begin = {0}, end = {1};
  std::vector<float> weight = {1};
  int64_t windows() const { return static_cast<int64_t>(begin.size()); }
};

// dx[p, i] = sum over the windows o that cover i of dy[p, o] times their weights: means over boxes.
class AveragePoolGrad {
 public:
  AveragePoolGrad() = default;
  // Depth, height, width; axes that there are not keep the default.
  explicit AveragePoolGrad(std::array<WindowAxis, 3> axes);
  Status Run(int64_t planes, DType type, const void* dy, void* dx) const;

 private:
  struct Plane;
  void RunRow(const Plane& plane, int64_t depth, int64_t row) const;

  std::array<WindowAxis, 3> axes_;
  std::array<std::vector<int64_t>, 2> first_, last_;  // windows [first, last) that cover a slice, a row
  int64_t even_ = 0;  // where window o of a row covers [o * even, (o + 1) * even), else 0
};

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_POOL_GRAD_H_
