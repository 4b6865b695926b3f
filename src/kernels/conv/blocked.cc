#include "kernels/conv/blocked.h"

#include <algorithm>

#include "base/parallel.h"
#include "kernels/conv/conv.h"
#include "kernels/transpose/tile.h"
#include "vector/convert.h"

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

void ImagesToBlocked(DType dtype, const void* nchw, int64_t n, int64_t c, int64_t pixels, float* blocked) {
  const int64_t blocks = (c + kC0 - 1) / kC0;
  ParallelFor(n * blocks, [&](int64_t i, int) {
    const int64_t image = i / blocks, b = i % blocks, first = (image * c + b * kC0) * pixels;
    const int lanes = static_cast<int>(std::min<int64_t>(kC0, c - b * kC0));
    float* const to = blocked + i * pixels * kC0;
    if (dtype == DType::kF32)
      return ToBlocked(static_cast<const float*>(nchw) + first, pixels, lanes, pixels, to);
    constexpr int64_t kStrip = 256;  // pixels converted at a time: 16 KiB for all lanes
    float strip[kC0 * kStrip];
    for (int64_t p = 0; p < pixels; p += kStrip) {
      const int64_t count = std::min(kStrip, pixels - p);
      for (int64_t l = 0; l < lanes; ++l) {
        const char* from =
            static_cast<const char*>(nchw) + (first + l * pixels + p) * static_cast<int64_t>(SizeOf(dtype));
        vector::LoadConvert(dtype, from, 1, ComputeType::kF32, strip + l * kStrip, count);
      }
      ToBlocked(strip, kStrip, lanes, count, to + p * kC0);
    }
  });
}

}  // namespace opsnn::conv
