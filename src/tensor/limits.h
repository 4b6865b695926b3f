// Limits on shapes that come from outside or from inference.
#ifndef OPSNN_TENSOR_LIMITS_H_
#define OPSNN_TENSOR_LIMITS_H_

#include "tensor/shape.h"

namespace opsnn {

inline constexpr int64_t kMaxDim = int64_t{1} << 40;       // no machine holds a tensor with a longer side
inline constexpr int64_t kMaxElements = int64_t{1} << 53;  // bytes of whole blocks still fit 63 bits

// Every known size is at most kMaxDim and the product of those that are not 0 at most kMaxElements, so that
// strides, element counts and bytes of any part of the shape cannot overflow.
bool WithinLimits(const Dims& dims);

}  // namespace opsnn

#endif  // OPSNN_TENSOR_LIMITS_H_
