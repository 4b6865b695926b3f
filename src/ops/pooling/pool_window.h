// What a pooling call asks for: its window along 1 to 3 spatial dims and the size of the result.
#ifndef OPSNN_OPS_POOLING_POOL_WINDOW_H_
#define OPSNN_OPS_POOLING_POOL_WINDOW_H_

#include "op/attrs.h"
#include "op/window.h"
#include "tensor/shape.h"

namespace opsnn::ops {

struct PoolWindow {
  op::Window plane;  // height and width; height is 1 for 1-D
  op::Window depth;  // 3-D: its axis 1; else a window of 1
  Dims out;          // of the whole result, kUnknownDim where the input's is unknown

  // The window along spatial axis i of (depth, height, width).
  struct Axis {
    int64_t kernel, stride, dilation, pad_begin, pad_end;
  };
  Axis axis(int i) const {
    const op::Window& w = i == 0 ? depth : plane;
    const int k = i == 2 || i == 0 ? 1 : 0;
    return {w.kernel[k], w.stride[k], w.dilation[k], w.pad_begin[k], w.pad_end[k]};
  }
};

// Reads and checks the attributes for an input of `x` (rank 3 to 5).
Result<PoolWindow> ResolvePool(const char* name, const Dims& x, const op::Attrs& attrs);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_POOLING_POOL_WINDOW_H_
