// Pooling of NCHW planes by the windows that vision models use, all rows of a plane in one go: maxima of 3 x
// 3 with stride 2 and a border of one, maxima and averages of 2 x 2 with stride 2.
#ifndef OPSNN_KERNELS_POOL_WINDOW_PLANE_H_
#define OPSNN_KERNELS_POOL_WINDOW_PLANE_H_

#include "kernels/pool/pool.h"

namespace opsnn::pool {

inline constexpr int64_t kWidestPlane = 2048;  // a row of it takes 8 KiB of L1
bool FitsWindowPlane(const PoolShape& s);
// Rows [begin, end) of the result of the plane x, densely to y. False where a plane of maxima may hold NaN: y
// is unspecified then.
bool RunWindowPlane(const PoolShape& s, const float* x, int64_t begin, int64_t end, float* y);
// n floats, a multiple of a cache line of them, past the caches; both are aligned to a line.
void StreamLines(const float* from, int64_t n, float* to);

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_WINDOW_PLANE_H_
