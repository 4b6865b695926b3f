// The vector part of the gradients of norms: runs of one statistic each.
#ifndef OPSNN_KERNELS_REDUCE_NORM_GRAD_TIER_H_
#define OPSNN_KERNELS_REDUCE_NORM_GRAD_TIER_H_

#include <cstddef>

#include "base/dtype.h"

namespace opsnn::kernels {

// n elements with one mean and rstd. Of gamma there is one per element, or none and `scale` for all.
struct NormGradRun {
  DType type = DType::kF32;
  size_t n = 0;
  const void *dy = nullptr, *x = nullptr;
  float mean = 0, rstd = 1, scale = 1;
  const float* gamma = nullptr;
  // What the first loop adds up: dy * normal and dy into one place per element each (or null), and their sums
  // times gamma over the run.
  float *by_element_dyn = nullptr, *by_element_dy = nullptr;
  double sum_g = 0, sum_gn = 0;
  // What the second one writes: (g - mean_g - normal * mean_gn) * rstd; without `centre` g * rstd, whatever
  // x is.
  float mean_g = 0, mean_gn = 0;
  bool centre = true;
  void* dx = nullptr;
  bool stream = false;
  const char *next_dy = nullptr, *next_x = nullptr;  // fetched meanwhile: as many bytes as the run has
};
void SumNormGrad(NormGradRun& r);
void WriteNormGrad(const NormGradRun& r);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_REDUCE_NORM_GRAD_TIER_H_
