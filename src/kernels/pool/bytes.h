// Max pooling of bytes in blocks of channels (NC1HWC0, C0 = 32): pixels are half a vector or a whole one.
#ifndef OPSNN_KERNELS_POOL_BYTES_H_
#define OPSNN_KERNELS_POOL_BYTES_H_

#include <cstdint>

#include "kernels/pool/pool.h"

namespace opsnn::pool {

inline constexpr int64_t kByteC0 = 32;
// A max pool as in pool.h; shape.c counts channels, x_blocked and y_blocked are not read. A window without an
// element gives the least value of the type.
void RunByteMaxPool(const PoolShape& shape, bool is_signed, const void* x, void* y);

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_BYTES_H_
