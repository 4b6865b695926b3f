// Gradients of a deformable convolution (deform.h) by its input, its places and its masks, f32. With
// g[n,c,k,p] = sum_o w[o,c,k] * dy[n,o,p], the gradient by what was sampled, and s(place) what lies there,
//
//   d mask = sum_c g * s        d place = mask * sum_c g * ds/dplace        dx[pixel] = sum g * mask * share
//
// with the share that a pixel has in a place. Between pixels s has no slope of its own: a place on a pixel
// takes that towards larger coordinates, as do pixels' borders; places outside the image have none. Columns
// of g are made for some rows at a time as a pointwise convolution of dy. Sums go in an order that depends on
// the shape alone. The gradient by the weights is that of a plain convolution of the columns (weight_grad.h).
#ifndef OPSNN_KERNELS_CONV_DEFORM_DEFORM_GRAD_H_
#define OPSNN_KERNELS_CONV_DEFORM_DEFORM_GRAD_H_

#include "kernels/conv/deform/deform.h"

namespace opsnn::conv {

struct DeformGradPlan : DeformColumns {  // products: dy to columns of g
  size_t dx_offset = 0, dy_offset = 0;
  std::string Describe() const;
};
DeformGradPlan PlanDeformGrad(const ConvShape& shape, int64_t offset_groups);

// Where gradients of a DeformField go.
struct DeformFieldGrad {
  float* data = nullptr;
  int64_t image = 0, channel = 0;
};

struct DeformGradArgs {
  const float* x = nullptr;              // (N, C, H, W)
  const float* w = nullptr;              // (OC, C / groups, kh, kw)
  const float* dy = nullptr;             // (N, OC, OH, OW), the gradient of the result
  DeformField down, right, mask;         // places and factors; mask may be absent
  float* dx = nullptr;                   // (N, C, H, W)
  DeformFieldGrad ddown, dright, dmask;  // dmask may be absent
  void* workspace = nullptr;
};
void RunDeformGrad(const DeformGradPlan& plan, const DeformGradArgs& args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_DEFORM_DEFORM_GRAD_H_
