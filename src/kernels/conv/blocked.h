// Conversion between NCHW and NC1HWC0 (C0 = 16) for images that are f32 in blocks, a range of pixels of one
// channel block at a time.
#ifndef OPSNN_KERNELS_CONV_BLOCKED_H_
#define OPSNN_KERNELS_CONV_BLOCKED_H_

#include <cstdint>

#include "base/dtype.h"

namespace opsnn::conv {

// blocked[p * 16 + l] = planes[l * plane_stride + p] for l < lanes, 0 for the other lanes; p < pixels.
void ToBlocked(const float* planes, int64_t plane_stride, int lanes, int64_t pixels, float* blocked);
// planes[l * plane_stride + p] = blocked[p * 16 + l] for l < lanes.
void FromBlocked(const float* blocked, int lanes, int64_t pixels, float* planes, int64_t plane_stride);

// Whole images of f32, f16 or bf16, in parallel.
void ImagesToBlocked(DType dtype, const void* nchw, int64_t n, int64_t c, int64_t pixels, float* blocked);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_BLOCKED_H_
