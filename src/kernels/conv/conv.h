// Convolution kernels, f32: direct convolution on blocked images (NC1HWC0, C0 = 16), everything else around
// it.
//
//   y[n,o,oy,ox] = act(bias[o] + sum_{c,ky,kx} w[o,c,ky,kx] * x[n,c,oy*sh - pt + ky*dh, ox*sw - pl + kx*dw] +
//   r)
//
// (of volumes: likewise with oz, kz, for which depth, front padding pf, sd and dd stand in the same way) with
// x = 0 outside the image, c running over the channels of o's group, r an optional residual of y's
// shape. Transposed: y[n,o,iy*sh - pt + ky*dh, ix*sw - pl + kx*dw] sums w[c,o,ky,kx] * x[n,c,iy,ix]. A plan
// is made once per shape and holds no data; weights are packed by PackWeights into a buffer that belongs to
// the caller. Padding lanes of a blocked input's last channel block have no influence; those of the output
// are unspecified. Products with padding are not part of the sum: weights that are not finite reach no output
// through them. Every result is summed in one fixed order (kz, then channel block, then ky, kx, then
// channel; Winograd sums its points over the channels), whatever the threads.
#ifndef OPSNN_KERNELS_CONV_CONV_H_
#define OPSNN_KERNELS_CONV_CONV_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "isa/tier.h"
#include "simd/reg_act.h"
#include "vector/run.h"

namespace opsnn::conv {

inline constexpr int kC0 = 16;  // channels per block of f32 images: one AVX-512 vector, one cache line

struct ConvShape {
  int64_t n = 1, c = 1, d = 1, h = 1, w = 1;  // input (N, C, D, H, W); images have depth 1
  int64_t oc = 1, od = 1, oh = 1, ow = 1;     // output; padding at the ends follows from these
  int64_t kd = 1, kh = 1, kw = 1;
  int64_t sd = 1, sh = 1, sw = 1, dd = 1, dh = 1, dw = 1;
  int64_t pf = 0, pt = 0, pl = 0;  // padding in front, on top and on the left; negative crops
  int64_t groups = 1;
  bool transposed = false;
  DType x_dtype = DType::kF32;              // f16, bf16: of an NCHW input, converted on its way into blocks
  bool x_blocked = true, y_blocked = true;  // NC1HWC0 (volumes: N, C1, D, H, W, C0), else NCHW

  int64_t plane() const { return d * h * w; }  // elements of one channel
  int64_t out_plane() const { return od * oh * ow; }
  int64_t taps() const { return kd * kh * kw; }
  bool flat() const { return d == 1 && od == 1 && kd == 1 && pf == 0; }  // images, no volumes
  int winograd =
      0;  // 2 or 4: output tile of Winograd, where the shape allows it; the caller accepts its error
  bool im2col = false;  // the general form, wherever it can compute the shape: for comparison
};

// The variants, best first.
enum class Variant : uint8_t {
  kDepthwise,   // one input and one output channel per group
  kFirstLayer,  // NCHW input with few channels, read without conversion
  kWinograd,    // 3x3 or 5x5, stride 1, where ConvShape asks for it
  kPointwise,   // 1x1, stride 1: a gemm over flattened pixels
  kDirect,      // any dense kernel; groups whose channels fill whole blocks
  kTransposed,  // one small direct convolution per output phase
  kGrouped,     // groups that share channel blocks
  kIm2col,      // columns in memory, then a product, where ConvShape asks for it
};
const char* Name(Variant v);

// A kernel position, as an offset from a pixel's base position in the input.
struct Tap {
  int32_t dz = 0, dy = 0, dx = 0;  // in input pixels
  int32_t kz = 0, ky = 0, kx = 0;  // in the kernel
};

// Output pixels (pz + i*step_d, py + j*step_h, px + k*step_w), i < slices, j < rows, k < cols, that share one
// list of taps: all triples of some slices, rows and columns, in this order. A plain convolution has one
// phase; a transposed one has sd * sh * sw of them.
struct Phase {
  int64_t pz = 0, py = 0, px = 0, slices = 1, rows = 0, cols = 0;
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
  int64_t in_step_d = 1, in_step_h = 1, in_step_w = 1;     // input step per phase slice, row and column
  int64_t out_step_d = 1, out_step_h = 1, out_step_w = 1;  // output step likewise
  int64_t packed_floats = 0;
  // Where some output meets padding: the packed float that is 0 if a weight is not finite. Else -1.
  int64_t finite_offset = -1;
  size_t workspace_bytes = 0;
  int64_t x_offset = 0, y_offset = 0;       // in floats: blocked copies inside the workspace
  int64_t magnitudes_offset = 0;            // Winograd: what decides which tiles are plain sums
  std::shared_ptr<const ConvPlan> product;  // im2col: of the columns, which lie at x_offset
  std::shared_ptr<const ConvPlan> direct;  // im2col: runs instead if a weight is not finite; null: no padding

  std::string Describe() const;  // "direct 3x3 s1, 2 blocks x 14 pixels, avx512"
};

// Chooses the variant and lays out weights and workspace for the active tier. The shape must be valid.
ConvPlan PlanConv(const ConvShape& shape);

// The Winograd tile with which this shape is fastest on the active tier, 4 (3x3 kernels) or 2; 0: the direct
// form is, or Winograd cannot compute it.
int ChooseWinograd(const ConvShape& s);

// A Winograd output is off by at most  eps * WinogradGrowth * sum_{c,ky,kx} |w| max |x|,  the maximum over
// the pixels that share a tile with the output: m + kernel - 2 around it (in f32, eps = 2^-24, first order).
double WinogradGrowth(int m, int kernel, int64_t channels);

// w is dense: (OC, C/groups, kd, kh, kw), for transposed convolutions (C, OC/groups, kd, kh, kw).
void PackWeights(const ConvPlan& plan, const float* w, float* packed);

// May products with padding be left in as products with zeros? No if a packed weight is not finite.
inline bool FiniteWeights(const ConvPlan& plan, const float* packed) {
  return plan.finite_offset < 0 || packed[plan.finite_offset] != 0;
}

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
  const void* half_x = nullptr;    // instead of x, where ConvShape::x_dtype is not f32
  const float* weights = nullptr;  // packed
  const float* plain_weights =
      nullptr;                      // instead, as PackWeights takes them, with room for packed_floats ...
  float* packing = nullptr;         // ... here, whose contents are unspecified afterwards
  float* y = nullptr;               // null with an NCHW y and a program that stores the result itself
  const float* residual = nullptr;  // blocked, in y's layout; may be y itself
  void* workspace = nullptr;
  float* moments =
      nullptr;  // room for MomentFloats (moments.h) of what is stored before the program; or null
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
