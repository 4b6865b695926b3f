// Pooling kernels, f32, on blocked images (NC1HWC0, C0 = 16) and NCHW ones.
//
//   max      y = max over the window's positions inside the image; NaN anywhere in it gives NaN
//   average  y = sum / count, count = positions inside the image, or inside the padded image with include_pad
//
// A window that ends beyond the padded image (ceil mode) is cut off there. Padding lanes of a blocked image's
// last channel block are independent of the others; their results are unspecified.
#ifndef OPSNN_KERNELS_POOL_POOL_H_
#define OPSNN_KERNELS_POOL_POOL_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace opsnn::pool {

enum class Kind : uint8_t { kMax, kAverage };

struct PoolShape {
  Kind kind = Kind::kMax;
  int64_t n = 1, c = 1, h = 1, w = 1;
  int64_t oh = 1, ow = 1;
  int64_t kh = 1, kw = 1;
  int64_t sh = 1, sw = 1, dh = 1, dw = 1;
  int64_t pt = 0, pl = 0, pb = 0, pr = 0;  // bottom and right matter to include_pad only
  bool include_pad = false;
  bool x_blocked = true, y_blocked = true;
};

void RunPool(const PoolShape& shape, const float* x, float* y);

// Max pooling of NCHW images of f64 or an integer type (or f32).
void RunMaxPoolAny(const PoolShape& shape, DType dtype, const void* x, void* y);

// y[n,c,0,0] = max or mean over all pixels of x[n,c]; the mean of no pixels is NaN, their maximum -Inf.
void RunGlobalPool(Kind kind, int64_t n, int64_t c, int64_t pixels, bool x_blocked, bool y_blocked,
                   const float* x, float* y);

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_POOL_H_
