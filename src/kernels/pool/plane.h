// Pooling of NCHW planes where they lie: along columns first, then along the row that this gives.
#ifndef OPSNN_KERNELS_POOL_PLANE_H_
#define OPSNN_KERNELS_POOL_PLANE_H_

#include "kernels/pool/pool.h"

namespace opsnn::pool {

// NCHW images and a window of 2 or 3 columns or, for maxima, one not much wider than the image: the row of
// maxima is kept with its padding written out.
bool FitsPlanes(const PoolShape& s);
// kRuntime when there is no memory for that row.
Status RunPlanes(const PoolShape& s, const float* x, float* y);

}  // namespace opsnn::pool

#endif  // OPSNN_KERNELS_POOL_PLANE_H_
