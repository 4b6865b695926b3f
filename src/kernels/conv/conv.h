// Convolution kernels, f32: direct convolution on blocked images (NC1HWC0, C0 = 16), everything else around
// it.
//
//   y[n,o,oy,ox] = act(bias[o] + sum_{c,ky,kx} w[o,c,ky,kx] * x[n,c,oy*sh - pt + ky*dh, ox*sw - pl + kx*dw] +
//   r)
//
// with x = 0 outside the image, c running over the channels of o's group, r an optional residual of y's
// shape. Transposed: y[n,o,iy*sh - pt + ky*dh, ix*sw - pl + kx*dw] sums w[c,o,ky,kx] * x[n,c,iy,ix]. A plan
// is made once per shape and holds no data; weights are packed by PackWeights into a buffer that belongs to
// the caller. Padding lanes of a blocked input's last channel block are never read; those of the output are
// unspecified. Every result is summed in one fixed order (channel block, then ky, kx, then channel), whatever
// the threads.
#ifndef OPSNN_KERNELS_CONV_CONV_H_
#define OPSNN_KERNELS_CONV_CONV_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "isa/tier.h"
#include "simd/reg_act.h"
#include "vector/run.h"

namespace opsnn::conv {

inline constexpr int kC0 = 16;  // channels per block of f32 images: one AVX-512 vector, one cache line

struct ConvShape {
  int64_t n = 1, c = 1, h = 1, w = 1;  // input (N, C, H, W)
  int64_t oc = 1, oh = 1, ow = 1;      // output (N, OC, OH, OW); bottom and right padding follow from these
  int64_t kh = 1, kw = 1;
  int64_t sh = 1, sw = 1, dh = 1, dw = 1;
  int64_t pt = 0, pl = 0;  // padding on top and on the left; negative crops
  int64_t groups = 1;
  bool transposed = false;
  bool x_blocked = true, y_blocked = true;  // NC1HWC0, else NCHW
};

// The variants, best first.
enum class Variant : uint8_t {
  kDepthwise,   // one input and one output channel per group
  kFirstLayer,  // NCHW input with few channels, read without conversion
  kPointwise,   // 1x1, stride 1: a gemm over flattened pixels
  kDirect,      // any dense kernel; groups whose channels fill whole blocks
  kTransposed,  // one small direct convolution per output phase
  kGrouped,     // groups that share channel blocks
};
const char* Name(Variant v);

// A kernel position, as an offset from a pixel's base position in the input.
struct Tap {
  int32_t dy = 0, dx = 0;  // in input pixels
  int32_t ky = 0, kx = 0;  // in the kernel
};

// Output pixels (py + i*step_h, px + j*step_w), i < rows, j < cols, that share one list of taps. A plain
// convolution has one phase; a transposed one has sh * sw of them.
struct Phase {
  int64_t py = 0, px = 0, rows = 0, cols = 0;
  std::vector<Tap> taps;
};

// Up to four adjacent output blocks computed together from one range of input channels.
struct OcGroup {
  int64_t block = 0;  // first output block
  int blocks = 1;
  int64_t c_begin = 0, c_end = 0;      // input channels read
  int64_t group = 0;                   // convolution group
  int lane_begin = 0, lane_end = kC0;  // lanes stored; less than a block only where groups share blocks
  std::vector<int64_t> weight_offset;  // per phase, in floats
};

struct ConvPlan {
  ConvShape shape;
  Variant variant = Variant::kDirect;
  isa::Tier tier = isa::Tier::kSse4;  // packed weights depend on it
  std::string refused;                // why the variants before this one do not apply
  std::vector<Phase> phases;
  std::vector<OcGroup> oc_groups;
  int64_t in_step_h = 1, in_step_w = 1;    // input step per phase row and column
  int64_t out_step_h = 1, out_step_w = 1;  // output step per phase row and column
  int64_t packed_floats = 0;
  size_t workspace_bytes = 0;
  int64_t x_offset = 0, y_offset = 0;  // in floats: blocked copies inside the workspace

  std::string Describe() const;  // "direct 3x3 s1, 2 blocks x 14 pixels, avx512"
};

// Chooses the variant and lays out weights and workspace for the active tier. The shape must be valid.
ConvPlan PlanConv(const ConvShape& shape);

// w is dense: (OC, C/groups, kh, kw), for transposed convolutions (C, OC/groups, kh, kw).
void PackWeights(const ConvPlan& plan, const float* w, float* packed);

// Names everything that the packed order depends on: plans with equal keys share packed weights.
std::string PackKey(const ConvPlan& plan);

// What happens to a finished sum, in this order: act, then scale and shift for all channels alike (the
// product is rounded first). The neutral shift is -0: adding it changes no value.
struct Post {
  RegAct act = RegAct::kNone;
  float act_imm[2] = {0, 0};
  bool affine = false;
  float scale = 1.0f, shift = -0.0f;
};

// Order of the epilogue: bias (it starts the sum), residual, act, affine, then the program on stored rows.
struct ConvArgs {
  const float* x = nullptr;
  const float* weights = nullptr;   // packed
  float* y = nullptr;               // null with an NCHW y and a program that stores the result itself
  const float* residual = nullptr;  // blocked, in y's layout; may be y itself
  void* workspace = nullptr;
  vector::Epilogue epilogue;
  bool affine = false;  // scale and shift of Post
  float scale = 1.0f, shift = -0.0f;

  Post post() const {
    return {epilogue.act, {epilogue.act_imm[0], epilogue.act_imm[1]}, affine, scale, shift};
  }
};
void RunConv(const ConvPlan& plan, const ConvArgs& args);

}  // namespace opsnn::conv

#endif  // OPSNN_KERNELS_CONV_CONV_H_
