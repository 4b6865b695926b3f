// Merging updates into what is there.
#ifndef OPSNN_KERNELS_GATHER_SCATTER_REDUCE_H_
#define OPSNN_KERNELS_GATHER_SCATTER_REDUCE_H_

#include "kernels/gather/gather.h"

namespace opsnn::kernels {

// Merges `bytes` of elements; null for bool.
using ReduceFn = void (*)(ScatterReduction, const void* update, void* at, int64_t bytes);
ReduceFn FindReduce(DType dtype);
// Divides one element by a count; null for bool.
using MeanFn = void (*)(void* at, int64_t count);
MeanFn FindMean(DType dtype);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_GATHER_SCATTER_REDUCE_H_
