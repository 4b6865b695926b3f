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
#include "base/status.h"

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
  bool sum = false;  // average without the division
  bool x_blocked = true, y_blocked = true;
};

// kRuntime when there is no memory for the copies of NCHW rows.
Status RunPool(const PoolShape& shape, const float* x, float* y);

// Max pooling of NCHW images of f64 or an integer type (or f32); average pooling of f64.
void RunPoolAny(const PoolShape& shape, DType dtype, const void* x, void* y);

// A third axis, pooled after the other two: y[p, o, :] combines x[p, i, :] over the window of o, where x and
// y are (planes, d, inner) and (planes, od, inner). Averages divide by `counts[o]`, sums of averages being
// averages; max where counts is empty.
struct DepthShape {
  int64_t planes = 1, d = 1, od = 1, inner = 1;
  int64_t k = 1, stride = 1, dilation = 1, pad = 0;
};
void RunDepthPool(const DepthShape& shape, DType dtype, const int64_t* counts, const void* x, void* y);

// Max pooling that also says where each maximum was found, 1 to 3 spatial dims (the leading ones are 1).
// Positions are flat indices into x, (n, c, d, h, w) in row-major order or, column_major, with the spatial
// dims in the reverse order. Among equal values the first position in row-major order; the first NaN wins. A
// window without any element gives -Inf (the lowest integer) and position -1.
struct MaxIndexShape {
  int64_t planes = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
  bool column_major = false;
};
void RunMaxPoolIndices(const MaxIndexShape& shape, DType dtype, const void* x, void* y, int64_t* positions);

// y[n,c,0,0] = max or mean over all pixels of x[n,c]; the mean of no pixels is NaN, their maximum -Inf.
void RunGlobalPool(Kind kind, int64_t n, int64_t c, int64_t pixels, bool x_blocked, bool y_blocked,
                   const float* x, float* y);

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_POOL_H_
