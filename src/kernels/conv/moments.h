// Mean and variance of every output channel, gathered while rows are in the cache: normalisation over a batch
// then reads the result once instead of twice.
//
// Each row of each channel leaves its mean as rounded, what the rounding misses, and the sum of its squared
// distances from the rounded mean; they are joined in f64 afterwards, in one order whatever the threads.
#ifndef OPSNN_KERNELS_CONV_MOMENTS_H_
#define OPSNN_KERNELS_CONV_MOMENTS_H_

#include <cstdint>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

int64_t MomentFloats(const ConvPlan& plan);

// Where those of `row` (through the slices) of block b of image n lie: [row][3][kC0].
float* MomentsOf(const ConvPlan& plan, float* moments, int64_t n, int64_t b, int64_t row);
// Of `rows` blocked rows of the result, one after the other.
void RowMoments(const ConvPlan& plan, const float* rows_of_block, int64_t rows, float* out);

// mean[oc] and variance[oc], of the population, from what RunConv left in ConvArgs::moments. A result without
// elements has NaN for both.
void JoinMoments(const ConvPlan& plan, const float* moments, double* mean, double* variance);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_MOMENTS_H_
