// Where the values of a resized axis come from: for every output position, the input positions that feed it
// and their weights. Computed once, when a resize is planned.
#ifndef OPSNN_KERNELS_RESIZE_AXIS_TAPS_H_
#define OPSNN_KERNELS_RESIZE_AXIS_TAPS_H_

#include <cstdint>
#include <vector>

namespace opsnn::kernels {

enum class Interpolation : uint8_t { kNearest, kLinear, kCubic };
// How an output position maps to an input position (names and formulas of ONNX Resize).
enum class CoordinateMode : uint8_t {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kTfHalfPixelForNearest,
  kTfCropAndResize,
};
enum class NearestMode : uint8_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct AxisRule {
  int64_t in = 1, out = 1;
  float scale = 1;                   // out / in as the caller gave it; coordinates follow it, not the sizes
  float roi_start = 0, roi_end = 1;  // kTfCropAndResize
  Interpolation interpolation = Interpolation::kNearest;
  CoordinateMode coordinates = CoordinateMode::kHalfPixel;
  NearestMode nearest = NearestMode::kRoundPreferFloor;
  float cubic_a = -0.75f;
  bool exclude_outside = false;  // cubic: positions outside get weight 0, the others are scaled up
};

// Tap t of output position o: index[t * out + o], weight[t * out + o]. Structure of arrays, so that a vector
// of output positions loads its taps at once.
struct AxisTaps {
  int64_t in = 1, out = 1;
  int taps = 1;  // 1, 2 or 4
  std::vector<int32_t> index;
  std::vector<float> weight;
  std::vector<uint8_t> outside;  // kTfCropAndResize: positions that take the extrapolation value; else empty
  bool identity = false;         // one tap, every position from itself
};
AxisTaps MakeAxisTaps(const AxisRule& rule);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_RESIZE_AXIS_TAPS_H_
