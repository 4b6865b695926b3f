// Gradients of a norm whose statistics are one per channel of NCHW images:
//
//   n = (x - mean) * rstd
//   dx = (dy * gamma - mean(dy * gamma) - n * mean(dy * gamma * n)) * rstd     means over the channel
//   dgamma = sum over the channel of dy * n,  dbeta = sum over the channel of dy
//
// With statistics that were given (not training) both means are left out. Where a channel of all images stays
// in a core's cache, dy and x are read from memory once. Sums depend on the shape only.
#ifndef OPSNN_KERNELS_REDUCE_PLANE_NORM_GRAD_H_
#define OPSNN_KERNELS_REDUCE_PLANE_NORM_GRAD_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace opsnn::kernels {

struct PlaneNormGrad {
  int64_t n = 0, c = 0, pixels = 0;
  DType type = DType::kF32;  // of dy, x and dx, which are contiguous: f32, f16 or bf16
  const void *dy = nullptr, *x = nullptr;
  const float *mean = nullptr, *rstd = nullptr;  // one per channel
  const float* gamma = nullptr;                  // null: 1
  bool training = true;
  void* dx = nullptr;  // this and the next may be null; dx may be dy or x
  float *dgamma = nullptr, *dbeta = nullptr;
};

size_t PlaneNormGradScratch(int64_t n, int64_t c, int64_t pixels);  // bytes
void RunPlaneNormGrad(const PlaneNormGrad& p, void* scratch);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_REDUCE_PLANE_NORM_GRAD_H_
