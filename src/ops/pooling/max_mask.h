// Masks of 2-D max pools: a bit per window and element of the window says where the maximum is.
#ifndef OPSNN_OPS_POOLING_MAX_MASK_H_
#define OPSNN_OPS_POOLING_MAX_MASK_H_

#include "op/operator.h"

namespace opsnn::ops {

// Windows of a plane. The attributes of both operators, as the C API has checked them.
struct MaskWindows {
  int64_t kernel[2], stride[2], pad[2], image[2], pooled[2];

  int64_t windows() const { return pooled[0] * pooled[1]; }
  int64_t elements() const { return kernel[0] * kernel[1]; }
  // Bytes of one element's bits: as many blocks of 32 as 16 windows need, and one more.
  int64_t row() const { return ((windows() + 15) / 16 + 1) * 32; }
  // Where window o begins; may lie in the padding.
  int64_t top(int64_t o) const { return o / pooled[1] * stride[0] - pad[0]; }
  int64_t left(int64_t o) const { return o % pooled[1] * stride[1] - pad[1]; }
};

Result<MaskWindows> MaskWindowsOf(const char* op, const op::Attrs& attrs, const std::vector<int64_t>& pooled);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_POOLING_MAX_MASK_H_
