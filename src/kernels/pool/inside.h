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

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_INSIDE_H_
