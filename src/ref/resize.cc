// Resize by separable interpolation: per axis a list of (source index, weight) for every output position.
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

struct Tap {
  int64_t at;
  double weight;
};

double Source(const std::string& mode, double x, double scale, int64_t in, int64_t out, double roi_lo,
              double roi_hi) {
  if (mode == "asymmetric") return x / scale;
  if (mode == "align_corners") {
    const double length = scale * static_cast<double>(in), whole = static_cast<double>(out);
    const double exact = std::fabs(length - whole) < 1e-3 ? whole : length;
    return out == 1 ? 0 : x * static_cast<double>(in - 1) / (exact - 1);
  }
  if (mode == "pytorch_half_pixel") return out == 1 ? 0 : (x + 0.5) / scale - 0.5;
  if (mode == "half_pixel_symmetric") {
    const double adjust = static_cast<double>(out) / (scale * static_cast<double>(in)),
                 center = static_cast<double>(in) / 2;
    return center * (1 - adjust) + (x + 0.5) / scale - 0.5;
  }
  if (mode == "tf_crop_and_resize") {
    const double last = static_cast<double>(in - 1);
    if (out == 1) return 0.5 * (roi_lo + roi_hi) * last;
    return roi_lo * last + x * (roi_hi - roi_lo) * last / static_cast<double>(out - 1);
  }
  return (x + 0.5) / scale - 0.5;  // half_pixel
}

int64_t Nearest(const std::string& mode, double x) {
  if (mode == "round_prefer_ceil") return static_cast<int64_t>(std::floor(x + 0.5));
  if (mode == "floor") return static_cast<int64_t>(std::floor(x));
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  return static_cast<int64_t>(std::ceil(x - 0.5));  // round_prefer_floor
}

std::vector<Tap> Taps(const Call& c, double x, int64_t in) {
  const std::string mode = c.attrs->String("mode", "nearest");
  auto clamp = [&](int64_t i) { return std::min<int64_t>(std::max<int64_t>(i, 0), in - 1); };
  if (mode == "nearest")
    return {{clamp(Nearest(c.attrs->String("nearest_mode", "round_prefer_floor"), x)), 1.0}};
  const double lo = std::floor(x), t = x - lo;
  const int64_t i = static_cast<int64_t>(lo);
  if (mode == "linear") return {{clamp(i), 1 - t}, {clamp(i + 1), t}};
  const double a = c.attrs->Float("cubic_coeff_a", -0.75);
  const double d[4] = {1 + t, t, 1 - t, 2 - t};
  std::vector<Tap> taps;
  double total = 0;
  for (int j = 0; j < 4; ++j) {
    const double s = d[j], near = ((a + 2) * s - (a + 3)) * s * s + 1,
                 far = ((a * s - 5 * a) * s + 8 * a) * s - 4 * a;
    double w = j == 1 || j == 2 ? near : far;
    const int64_t at = i - 1 + j;
    if (c.attrs->Int("exclude_outside", 0) && (at < 0 || at >= in)) w = 0;
    taps.push_back({clamp(at), w});
    total += w;
  }
  for (Tap& tap : taps) tap.weight /= total;
  return taps;
}

Tensor Interpolate(const Call& c, const Tensor& x) {
  const int rank = x.dims.rank();
  const Dims& out = c.output_dims[0];
  std::vector<int64_t> axes = c.attrs->Ints("axes");
  if (axes.empty())
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  const bool scaled = c.has(2) && c.in(2).size() > 0;
  Tensor y = x;
  for (size_t k = 0; k < axes.size(); ++k) {  // one axis after the other
    const int a = NormAxis(axes[k], rank);
    const int64_t n = x.dims[a], m = out[a];
    const double scale = scaled ? c.in(2).v[k] : static_cast<double>(m) / static_cast<double>(n);
    const bool roi = c.has(1) && c.in(1).size() > 0;
    const double lo = roi ? c.in(1).v[k] : 0, hi = roi ? c.in(1).v[axes.size() + k] : 1;
    const std::string mode = c.attrs->String("coordinate_transformation_mode", "half_pixel");
    Dims dims = y.dims;
    dims[a] = m;
    Tensor next = Tensor::Make(x.dtype, dims);
    int64_t inner = 1;
    for (int i = a + 1; i < rank; ++i) inner *= dims[i];
    const int64_t outer = m * inner > 0 ? next.size() / (m * inner) : 0;
    for (int64_t j = 0; j < m; ++j) {
      const double at = Source(mode, static_cast<double>(j), scale, n, m, lo, hi);
      const bool outside = mode == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(n - 1));
      for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
          double& v = next.v[(o * m + j) * inner + i];
          if (outside) {
            v = c.attrs->Float("extrapolation_value", 0);
            continue;
          }
          for (const Tap& t : Taps(c, at, n)) v += t.weight * y.v[(o * n + t.at) * inner + i];
        }
      }
    }
    y = std::move(next);
  }
  return y;
}

Status Resize(Call& c) {
  c.outputs.push_back(Interpolate(c, c.in(0)));
  if (c.attrs->String("mode", "nearest") == "nearest") return OkStatus();
  Tensor magnitudes = c.in(0);
  for (double& v : magnitudes.v) v = std::fabs(v);
  c.abs_sum = Interpolate(c, magnitudes).v;
  for (double& v : c.abs_sum) v = 2 * std::fabs(v);  // cubic weights may be negative
  return OkStatus();
}

constexpr Entry kTable[] = {{"Resize", Resize}};

}  // namespace

std::span<const Entry> ResizeTable() { return kTable; }

}  // namespace opsnn::ref
