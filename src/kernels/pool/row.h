// The vector part of pooling: one output row of one channel block, and reductions over pixels.
#ifndef OPSNN_KERNELS_POOL_ROW_H_
#define OPSNN_KERNELS_POOL_ROW_H_

#include <cstdint>

#include "kernels/pool/pool.h"

namespace opsnn::pool {

inline constexpr int kC0 = 16;

struct PoolRow {
  Kind kind = Kind::kMax;
  const float* x = nullptr;          // input plane of the block
  int64_t first_row = 0;             // row of the image that x starts with (the plane may be a part of it)
  float* y = nullptr;                // output row
  const float* scale = nullptr;      // average: 1 / count per output pixel
  int64_t ky_begin = 0, ky_end = 0;  // kernel rows inside the image
  int64_t iy = 0;                    // image row under kernel row 0
  int64_t w = 0, ow = 0, kw = 0, sw = 1, dh = 1, dw = 1, pl = 0;
};
void RunRow(const PoolRow& r);

// y[l] = max or sum over pixels of x[p * kC0 + l].
void ReduceBlock(Kind kind, const float* x, int64_t pixels, float* y);
// max or sum of x[0 .. n).
float ReducePlane(Kind kind, const float* x, int64_t n);

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_ROW_H_
