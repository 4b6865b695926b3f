// Deformable convolution of images, f32: every kernel position of every output pixel looks at a place of its
// own,
//
//   y[n,o,p] = bias[o] + sum_{c,k} w[o,c,k] * mask[n,d,k,p] * x[n,c](p * stride - pad + k * dilation +
//   offset[n,d,k,p])
//
// where d is the offset group of channel c and x(.) is linear between the four pixels around, with zeros
// outside the image. Columns of sampled values are made for some rows at a time, in blocks of channels, and
// multiplied as a pointwise convolution while they are in the cache. A place that is not a number gives NaN.
#ifndef OPSNN_KERNELS_CONV_DEFORM_DEFORM_H_
#define OPSNN_KERNELS_CONV_DEFORM_DEFORM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/conv/conv.h"

namespace opsnn::conv {

// Neighbouring channels of one convolution group and one offset group.
struct DeformSegment {
  int64_t first = 0, count = 0;
  int64_t offset_group = 0;
  int64_t x_block = 0;  // its first block among those of the image
};

// What the convolution and its gradient plan alike: columns of some output rows at a time, and the products
// between them and the output channels.
struct DeformColumns {
  ConvShape shape;  // layouts and Winograd do not matter
  int64_t offset_groups = 1;
  std::vector<std::vector<DeformSegment>> segments;  // by convolution group
  std::vector<ConvPlan> products;                    // likewise, chunk_rows at a time
  int64_t x_blocks = 0, chunk_rows = 1;
  size_t x_offset = 0, corners_offset = 0, columns_offset = 0, product_offset = 0,
         workspace_bytes = 0;                       // bytes inside the workspace
  std::vector<size_t> dense_offset, packed_offset;  // of the weights of each group
  int64_t chunk_pixels() const { return chunk_rows * shape.ow; }
  size_t Reserve(int64_t bytes);  // of workspace; where they lie
};

struct DeformPlan : DeformColumns {  // products: columns to output
  size_t result_offset = 0;
  std::string Describe() const;
};
DeformPlan PlanDeform(const ConvShape& shape, int64_t offset_groups);

// Values per offset group, kernel position and output pixel: element (n, d * taps + k, p) at
// n * image + (d * taps + k) * channel + p.
struct DeformField {
  const float* data = nullptr;
  int64_t image = 0, channel = 0;
};

struct DeformArgs {
  const float* x = nullptr;  // (N, C, H, W)
  const float* w = nullptr;  // (OC, C / groups, kh, kw)
  const float* bias = nullptr;
  DeformField dy, dx, mask;  // mask may be absent
  float* y = nullptr;        // (N, OC, OH, OW)
  float* columns = nullptr;  // if given, (N, C, OH * kh, OW * kw): what was sampled, the mask applied
  void* workspace = nullptr;
};
void RunDeform(const DeformPlan& plan, const DeformArgs& args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_DEFORM_DEFORM_H_
