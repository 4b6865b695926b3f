// Contiguous runs of half types to and from f32, vectorised on every tier. src and dst do not overlap.
#ifndef OPSNN_VECTOR_CONVERT_HALF_H_
#define OPSNN_VECTOR_CONVERT_HALF_H_

#include <cstdint>

#include "base/half.h"

namespace opsnn::vector {

void ConvertHalf(const F16* src, float* dst, int64_t n);
void ConvertHalf(const BF16* src, float* dst, int64_t n);
void ConvertHalf(const float* src, F16* dst, int64_t n);
void ConvertHalf(const float* src, BF16* dst, int64_t n);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_CONVERT_HALF_H_
