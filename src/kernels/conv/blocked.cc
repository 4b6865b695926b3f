#include "kernels/conv/blocked.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/conv/conv.h"
#include "kernels/transpose/tile.h"

namespace opsnn::conv {

namespace {
constexpr int64_t kFloat = sizeof(float);
}

void ToBlocked(const float* planes, int64_t plane_stride, int lanes, int64_t pixels, float* blocked) {
  if (lanes < kC0) std::fill(blocked, blocked + pixels * kC0, 0.0f);
  kernels::Transpose2D({sizeof(float), lanes, pixels, planes, plane_stride * kFloat, blocked, kC0 * kFloat});
}

void FromBlocked(const float* blocked, int lanes, int64_t pixels, float* planes, int64_t plane_stride) {
  kernels::Transpose2D({sizeof(float), pixels, lanes, blocked, kC0 * kFloat, planes, plane_stride * kFloat});
}

void ImagesToBlocked(const float* nchw, int64_t n, int64_t c, int64_t pixels, float* blocked) {
  const int64_t blocks = (c + kC0 - 1) / kC0;
  ParallelFor(n * blocks, [&](int64_t i, int) {
    const int64_t image = i / blocks, b = i % blocks;
    const int lanes = static_cast<int>(std::min<int64_t>(kC0, c - b * kC0));
    ToBlocked(nchw + (image * c + b * kC0) * pixels, pixels, lanes, pixels, blocked + i * pixels * kC0);
  });
}

}  // namespace opsnn::conv
