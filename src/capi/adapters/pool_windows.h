// What the adapters of pools share.
#ifndef OPSNN_CAPI_ADAPTERS_POOL_WINDOWS_H_
#define OPSNN_CAPI_ADAPTERS_POOL_WINDOWS_H_

#include "capi/adapters/common.h"

namespace opsnn::capi {

// Without a batch: a batch of one.
inline Operand WithBatch(const Operand& o, int axes) {
  if (o.desc.dims.rank() == axes + 2) return o;
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  dims.insert(0, 1), strides.insert(0, 0);
  return WithView(o, dims, strides);
}

// The windows of an adaptive pool along an axis of `size` elements: [floor(i * size / count),
// ceil((i + 1) * size / count)). No product is larger than size or count squared.
struct AdaptiveAxis {
  int64_t size = 0, count = 1;
  int64_t begin(int64_t i) const { return i * (size / count) + i * (size % count) / count; }
  int64_t end(int64_t i) const {
    return (i + 1) * (size / count) + ((i + 1) * (size % count) + count - 1) / count;
  }
};

// outputSize of an adaptive pool: one size of 0 or more for each of `axes`.
Status RequireOutputSizes(const Call& call, size_t axes);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_ADAPTERS_POOL_WINDOWS_H_
