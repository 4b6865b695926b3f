// Exact products of 8-bit matrices: on the f32 kernels, in parts of K short enough that every sum is an
// integer that f32 holds.
#ifndef OPSNN_OPS_QUANT_INTEGER_PRODUCT_H_
#define OPSNN_OPS_QUANT_INTEGER_PRODUCT_H_

#include <cstdint>

#include "base/status.h"

namespace opsnn::ops {

// Differences of two 8-bit values: their products are below 2^16, so 2^8 of them sum to less than 2^24.
inline constexpr int64_t kExactDepth = 256;

struct IntegerProduct {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  // a (m, k) and b (k, n) of integers up to 255 in magnitude, as f32, contiguous; a batch stride of 0
  // repeats.
  const float *a = nullptr, *b = nullptr;
  int64_t a_batch_stride = 0, b_batch_stride = 0;
  float* part = nullptr;  // m * n * batch
  int32_t* c = nullptr;   // contiguous; wraps beyond 2^31, where K > 33,000 might
};
void RunIntegerProduct(const IntegerProduct& p);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_QUANT_INTEGER_PRODUCT_H_
