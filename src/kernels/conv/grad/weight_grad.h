// The gradient of a convolution's weights, f32:
//
//   dw[o,c,kz,ky,kx] = sum_{n,oz,oy,ox} dy[n,o,oz,oy,ox] * x[n,c,oz*sd - pf + kz*dd, oy*sh - pt + ky*dh, ...]
//
// A product over pixels: images are cut into blocks of channels that lie together per pixel, and a register
// tile holds some input channels times one or two output blocks of one tap. For a transposed convolution, its
// input and output change places. Every sum goes through the pixels in runs whose lengths depend on the shape
// alone, and the sums of runs are added in order: the same bits whatever the threads.
// Products with padding are not part of a sum: values of dy that are not finite reach nothing through them.
#ifndef OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_H_
#define OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "isa/tier.h"
#include "kernels/conv/conv.h"

namespace opsnn::conv {

struct WeightGradPlan {
  ConvShape given;      // the plain forward convolution; layouts do not matter
  ConvShape shape;      // as the tiles see it: `given`, or with kernel columns as channels (spread)
  bool spread = false;  // channels of all kernel columns lie together, per output column: few channels, and
                        // kernels of one column that leave columns out
  bool few_channels = false;  // weight_grad_few.h; the fields up to run_rows mean nothing
  bool depthwise = false;     // one input and one output channel per group: lanes are channels
  isa::Tier tier = isa::Tier::kSse4;
  int64_t groups = 1;                        // that the kernel sees: 1 for depthwise
  int64_t in_blocks = 0, out_blocks = 0;     // per group
  int64_t block_channels = kC0;              // of an input block; spread: as even as may be
  int64_t run_rows = 1;                      // rows per run: what a tile reads of them stays in L1
  bool pairs_outer = false;                  // tiles go through the input blocks first
  int64_t sweep_rows = 1;                    // rows that all tiles visit before the next: they stay in L2
  int64_t chunk_rows = 1, chunk_x_rows = 1;  // most rows of output and input cut into blocks at a time
  int64_t x_offset = 0, dy_offset = 0, sums_offset = 0;  // floats inside the workspace
  size_t workspace_bytes = 0;

  // Spread columns hold padding as zeros: without spreading, for values that are not finite. Null: no
  // padding.
  std::shared_ptr<const WeightGradPlan> plain;

  std::string Describe() const;
};

WeightGradPlan PlanWeightGrad(const ConvShape& shape);

// x (N, C, D, H, W), dy (N, OC, OD, OH, OW) and dw (OC, C/groups, kd, kh, kw) are dense.
void RunWeightGrad(const WeightGradPlan& plan, const float* x, const float* dy, float* dw, void* workspace);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_GRAD_WEIGHT_GRAD_H_
