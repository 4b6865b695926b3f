// Resizing images: nearest, linear and cubic, over planes of rows of pixels. A pixel is `lanes` values that
// lie together: 1 for NCHW, the block size for NC1HWC0, the channels for NHWC.
#ifndef OPSNN_KERNELS_RESIZE_RESIZE_H_
#define OPSNN_KERNELS_RESIZE_RESIZE_H_

#include <cstdint>

#include "base/dtype.h"
#include "kernels/resize/axis_taps.h"

namespace opsnn::kernels {

struct ResizeParams {
  DType dtype = DType::kF32;
  int64_t planes = 1, lanes = 1;
  const AxisTaps* rows = nullptr;     // vertical
  const AxisTaps* columns = nullptr;  // horizontal
  double extrapolation = 0;           // value of positions marked outside
  const void* src = nullptr;          // (planes, rows->in, columns->in, lanes)
  void* dst = nullptr;                // (planes, rows->out, columns->out, lanes)
};

// One tap on both axes: bytes are moved, any dtype.
void ResizeNearest(const ResizeParams& p);
// Weighted: y = sum over rows and columns of weight * x, first along the row, then down the column, in f32
// (f64 for f64), rounded once at the store (integers as Cast does).
void ResizeWeighted(const ResizeParams& p);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_RESIZE_RESIZE_H_
