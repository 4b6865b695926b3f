// Where the slice of an index tuple lies.
#ifndef OPSNN_KERNELS_GATHER_SLICE_OFFSET_H_
#define OPSNN_KERNELS_GATHER_SLICE_OFFSET_H_

#include "kernels/gather/gather.h"

namespace opsnn::kernels {

inline int64_t FromEnd(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

// Byte offset of tuple `t`, counted over batches and tuples; the indices were checked.
inline int64_t SliceOffset(const SliceIndexParams& p, int64_t t) {
  const int k = p.bounds.rank();
  int64_t at = t / p.tuples;
  for (int i = 0; i < k; ++i) at = at * p.bounds[i] + FromEnd(p.indices[t * k + i], p.bounds[i]);
  return at * p.slice_bytes;
}

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_SLICE_OFFSET_H_
