// The part of a pooling window that lies inside the image.
#ifndef OPSNN_KERNELS_POOL_INSIDE_H_
#define OPSNN_KERNELS_POOL_INSIDE_H_

#include <algorithm>
#include <cstdint>

#include "base/int_math.h"

namespace opsnn::pool {

// Window positions [begin, end) of `k`, at first + i * dilation, that lie in [lo, hi).
struct Range {
  int64_t begin, end;
};
inline Range Inside(int64_t first, int64_t k, int64_t dilation, int64_t lo, int64_t hi) {
  const int64_t begin = first >= lo ? 0 : std::min(k, CeilDiv(lo - first, dilation));
  const int64_t end = first >= hi ? begin : std::min(k, CeilDiv(hi - first, dilation));
  return {begin, std::max(begin, end)};
}

// Positions of a window that an average divides by: inside the image of `size`, or with `include_pad` inside
// the padded one.
inline int64_t Counted(bool include_pad, int64_t first, int64_t k, int64_t dilation, int64_t size,
                       int64_t before, int64_t after) {
  const Range in =
      include_pad ? Inside(first, k, dilation, -before, size + after) : Inside(first, k, dilation, 0, size);
  return in.end - in.begin;
}

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_INSIDE_H_
