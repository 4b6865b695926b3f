#include "kernels/resize/axis_taps.h"

#include <algorithm>
#include <cmath>

namespace opsnn::kernels {
namespace {

// In f32 throughout: a position that lands on an integer in exact arithmetic (4 / (4/3)) does so in f32
// division by the f32 scale too, while the same scale widened to f64 misses it by an ulp and floor picks the
// neighbour.
float SourcePosition(const AxisRule& r, int64_t o) {
  const float x = static_cast<float>(o), in = static_cast<float>(r.in), out = static_cast<float>(r.out);
  switch (r.coordinates) {
    case CoordinateMode::kHalfPixel:
      return (x + 0.5f) / r.scale - 0.5f;
    case CoordinateMode::kHalfPixelSymmetric: {
      const float adjustment =
          out / (r.scale * in);  // sizes that the scale does not give exactly stay centred
      const float center = in / 2;
      return center * (1 - adjustment) + (x + 0.5f) / r.scale - 0.5f;
    }
    case CoordinateMode::kPytorchHalfPixel:
      return r.out > 1 ? (x + 0.5f) / r.scale - 0.5f : 0.0f;
    case CoordinateMode::kAlignCorners: {
      // The length before it was rounded down to `out`, unless it differs by the rounding of the scale alone.
      const float length = r.scale * in, exact = std::fabs(length - out) < 1e-3f ? out : length;
      return r.out > 1 ? x * (in - 1) / (exact - 1) : 0.0f;
    }
    case CoordinateMode::kAsymmetric:
      return x / r.scale;
    case CoordinateMode::kTfHalfPixelForNearest:
      return (x + 0.5f) / r.scale;
    case CoordinateMode::kTfCropAndResize:
      return r.out > 1 ? r.roi_start * (in - 1) + x * (r.roi_end - r.roi_start) * (in - 1) / (out - 1)
                       : 0.5f * (r.roi_start + r.roi_end) * (in - 1);
  }
  return 0;
}

int64_t Nearest(NearestMode mode, float x) {
  const float below = std::floor(x);
  switch (mode) {
    case NearestMode::kFloor:
      return static_cast<int64_t>(below);
    case NearestMode::kCeil:
      return static_cast<int64_t>(std::ceil(x));
    case NearestMode::kRoundPreferFloor:
      return static_cast<int64_t>(x - below <= 0.5f ? below : below + 1);
    case NearestMode::kRoundPreferCeil:
      return static_cast<int64_t>(x - below < 0.5f ? below : below + 1);
  }
  return 0;
}

struct Tap {
  int64_t index;
  float weight;
};

void Linear(float x, int64_t in, Tap* taps) {
  const float clamped = std::clamp(x, 0.0f, static_cast<float>(in - 1));
  const auto low = static_cast<int64_t>(clamped);
  const float fraction = clamped - static_cast<float>(low);
  taps[0] = {low, 1 - fraction};
  taps[1] = {std::min(low + 1, in - 1), fraction};
}

// Keys' cubic convolution with parameter a; positions beyond the border repeat it or are left out.
void Cubic(const AxisRule& r, float x, Tap* taps) {
  const float below = std::floor(x);
  const double s = x - below, a = r.cubic_a;  // the polynomials cancel: f64, rounded once
  const auto inner = [a](double d) { return static_cast<float>(((a + 2) * d - (a + 3)) * d * d + 1); };
  const auto outer = [a](double d) { return static_cast<float>(((a * d - 5 * a) * d + 8 * a) * d - 4 * a); };
  const float weights[4] = {outer(1 + s), inner(s), inner(1 - s), outer(2 - s)};
  float sum = 0;
  for (int t = 0; t < 4; ++t) {
    const int64_t at = static_cast<int64_t>(below) - 1 + t;
    const bool inside = at >= 0 && at < r.in;
    taps[t] = {std::clamp<int64_t>(at, 0, r.in - 1), inside || !r.exclude_outside ? weights[t] : 0.0f};
    sum += taps[t].weight;
  }
  for (int t = 0; r.exclude_outside && sum != 0 && t < 4; ++t) taps[t].weight /= sum;
}

}  // namespace

AxisTaps MakeAxisTaps(const AxisRule& r) {
  AxisTaps a;
  a.in = r.in;
  a.out = r.out;
  const bool crop = r.coordinates == CoordinateMode::kTfCropAndResize;
  if (r.in == r.out && r.scale == 1 && !crop) {
    a.identity = true;
    for (int64_t o = 0; o < r.out; ++o) a.index.push_back(static_cast<int32_t>(o));
    a.weight.assign(static_cast<size_t>(r.out), 1.0f);
    return a;
  }
  a.taps = r.interpolation == Interpolation::kNearest ? 1 : r.interpolation == Interpolation::kLinear ? 2 : 4;
  a.index.resize(static_cast<size_t>(a.taps * r.out));
  a.weight.resize(a.index.size());
  if (crop) a.outside.resize(static_cast<size_t>(r.out));
  for (int64_t o = 0; o < r.out; ++o) {
    const float x = SourcePosition(r, o);
    Tap taps[4] = {};
    if (r.interpolation == Interpolation::kNearest) {
      taps[0] = {std::clamp<int64_t>(Nearest(r.nearest, x), 0, r.in - 1), 1.0f};
    } else if (r.interpolation == Interpolation::kLinear) {
      Linear(x, r.in, taps);
    } else {
      Cubic(r, x, taps);
    }
    for (int t = 0; t < a.taps; ++t) {
      a.index[static_cast<size_t>(t * r.out + o)] = static_cast<int32_t>(taps[t].index);
      a.weight[static_cast<size_t>(t * r.out + o)] = taps[t].weight;
    }
    if (crop) a.outside[static_cast<size_t>(o)] = x < 0 || x > static_cast<float>(r.in - 1);
  }
  return a;
}

}  // namespace opsnn::kernels
