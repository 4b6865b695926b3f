// Sampling of images, and blocks laid over them.
#include <algorithm>
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

struct Tap {
  int64_t at;
  double weight;
};

// Position p in [-1, 1] along an axis of n pixels.
double Denormalise(double p, int64_t n, bool corners) {
  return corners ? (p + 1) / 2 * static_cast<double>(n - 1) : ((p + 1) * static_cast<double>(n) - 1) / 2;
}

double Cubic(double d) {
  const double a = -0.75, x = std::fabs(d);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

// The pixels that a position reads along its axis, before padding; `tie`: rounding decides which.
std::vector<Tap> TapsOf(double x, const std::string& mode, bool* tie) {
  const double f = std::floor(x);
  const int64_t at = static_cast<int64_t>(f);
  if (mode == "nearest") {
    *tie |= std::fabs(x - f - 0.5) <= 0x1p-18 * (1 + std::fabs(x));
    return {{static_cast<int64_t>(std::nearbyint(x)), 1}};
  }
  if (mode != "cubic" && mode != "bicubic") return {{at, 1 - (x - f)}, {at + 1, x - f}};
  std::vector<Tap> taps;
  for (int64_t k = -1; k <= 2; ++k) taps.push_back({at + k, Cubic(x - f - static_cast<double>(k))});
  return taps;
}

// Where a pixel outside is read; false: it is 0.
bool Inside(int64_t* at, int64_t n, const std::string& padding, bool corners) {
  if (*at >= 0 && *at < n) return true;
  if (padding == "zeros") return false;
  if (padding == "border") {
    *at = std::min(std::max<int64_t>(*at, 0), n - 1);
    return true;
  }
  const int64_t period = corners ? 2 * (n - 1) : 2 * n;
  if (period == 0) return *at = 0, true;
  int64_t m = *at % period;
  if (m < 0) m += period;
  *at = m < n ? m : period - m - (corners ? 0 : 1);
  return true;
}

Status GridSample(Call& c) {
  const Tensor &x = c.in(0), &grid = c.in(1);
  const int s = x.dims.rank() - 2;
  const bool corners = c.attrs->Int("align_corners", 0) != 0;
  const std::string mode = c.attrs->String("mode", "linear"),
                    padding = c.attrs->String("padding_mode", "zeros");
  Dims dims{x.dims[0], x.dims[1]}, image;
  double reach = 0;  // what an error in a position, relative to the axis, moves the result by
  for (int i = 0; i < s; ++i) {
    dims.push_back(grid.dims[1 + i]);
    image.push_back(x.dims[2 + i]);
    reach += static_cast<double>(x.dims[2 + i]);
  }
  Tensor y = Tensor::Make(x.dtype, dims);
  c.abs_sum.assign(y.v.size(), 0);
  const int64_t area = NumElements(image), points = y.size() ? y.size() / (dims[0] * dims[1]) : 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    const double* g = grid.v.data() + (i / points / dims[1] * points + i % points) * s;
    const double* plane = x.v.data() + i / points * area;
    std::vector<std::vector<Tap>> taps;
    bool tie = false, finite = true;
    Dims counts;
    for (int d = 0; d < s; ++d) {
      const double p = Denormalise(g[s - 1 - d], image[d], corners);
      finite &= std::fabs(p) < 1e9;
      taps.push_back(finite ? TapsOf(p, mode, &tie) : std::vector<Tap>{{-1, 0}});
      counts.push_back(static_cast<int64_t>(taps.back().size()));
    }
    std::vector<int64_t> t(static_cast<size_t>(s), 0);
    double largest = 0;
    do {
      double weight = 1;
      int64_t at = 0;
      bool inside = finite;
      for (int d = 0; d < s; ++d) {
        Tap tap = taps[static_cast<size_t>(d)][static_cast<size_t>(t[static_cast<size_t>(d)])];
        inside = inside && Inside(&tap.at, image[d], padding, corners);
        weight *= tap.weight;
        at = at * image[d] + tap.at;
      }
      if (!inside) continue;
      y.v[static_cast<size_t>(i)] += weight * plane[at];
      largest = std::max(largest, std::fabs(plane[at]));
    } while (Next(t, counts));
    c.abs_sum[static_cast<size_t>(i)] = tie || !finite ? HUGE_VAL : largest * (4 + reach);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status AffineGrid(Call& c) {
  const Tensor& theta = c.in(0);
  const std::vector<int64_t> size = Ints(c.in(1));
  const bool corners = c.attrs->Int("align_corners", 0) != 0;
  const int s = static_cast<int>(size.size()) - 2;
  Dims spatial, dims{size[0]};
  for (int i = 0; i < s; ++i) spatial.push_back(size[static_cast<size_t>(2 + i)]);
  for (int64_t d : spatial) dims.push_back(d);
  dims.push_back(s);
  Tensor y = Tensor::Make(theta.dtype, dims);
  c.abs_sum.assign(y.v.size(), 0);
  size_t out = 0;
  for (int64_t n = 0; n < size[0]; ++n) {
    std::vector<int64_t> at(static_cast<size_t>(s), 0);
    if (NumElements(spatial) == 0) break;
    do {
      for (int row = 0; row < s; ++row, ++out) {
        const double* t = theta.v.data() + (n * s + row) * (s + 1);
        y.v[out] = t[s];
        c.abs_sum[out] = std::fabs(t[s]);
        for (int k = 0; k < s; ++k) {  // the last axis comes first
          const int64_t len = spatial[s - 1 - k];
          const double i = static_cast<double>(at[static_cast<size_t>(s - 1 - k)]),
                       w = static_cast<double>(len);
          const double p = corners ? (len > 1 ? 2 * i / (w - 1) - 1 : 0) : (2 * i + 1) / w - 1;
          y.v[out] += t[k] * p;
          c.abs_sum[out] += std::fabs(t[k]);
        }
      }
    } while (Next(at, spatial));
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// A position along an axis of n pixels and its two taps; false: it counts as 0.
bool Bilinear(double p, int64_t n, Tap (&taps)[2]) {
  if (p < -1 || p > static_cast<double>(n)) return false;
  p = std::max(p, 0.0);
  int64_t low = static_cast<int64_t>(p);
  if (low >= n - 1) low = n - 1, p = static_cast<double>(low);
  taps[0] = {low, 1 - (p - static_cast<double>(low))};
  taps[1] = {std::min(low + 1, n - 1), p - static_cast<double>(low)};
  return true;
}

Status RoiAlign(Call& c) {
  const Tensor &x = c.in(0), &rois = c.in(1);
  const int64_t oh = c.attrs->Int("output_height", 1), ow = c.attrs->Int("output_width", 1);
  const int64_t ratio = c.attrs->Int("sampling_ratio", 0), channels = x.dims[1], h = x.dims[2], w = x.dims[3];
  const double scale = c.attrs->Float("spatial_scale", 1);
  const bool half = c.attrs->String("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const bool max = c.attrs->String("mode", "avg") == "max";
  Tensor y = Tensor::Make(x.dtype, {rois.dims[0], channels, oh, ow});
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t r = i / (channels * oh * ow), ch = i / (oh * ow) % channels, py = i / ow % oh, px = i % ow;
    const double* roi = rois.v.data() + 4 * r;
    const double shift = half ? 0.5 : 0, x1 = roi[0] * scale - shift, y1 = roi[1] * scale - shift;
    double rw = roi[2] * scale - shift - x1, rh = roi[3] * scale - shift - y1;
    if (!half) rw = std::max(rw, 1.0), rh = std::max(rh, 1.0);
    const double bh = rh / static_cast<double>(oh), bw = rw / static_cast<double>(ow);
    const int64_t gh = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(bh));
    const int64_t gw = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(bw));
    const double* plane =
        x.v.data() + (static_cast<int64_t>(c.in(2).v[static_cast<size_t>(r)]) * channels + ch) * h * w;
    double sum = 0, best = 0;
    bool any = false;
    for (int64_t sy = 0; sy < gh; ++sy) {
      for (int64_t sx = 0; sx < gw; ++sx) {
        Tap ty[2], tx[2];
        const double yy =
            y1 + (static_cast<double>(py) + (static_cast<double>(sy) + 0.5) / static_cast<double>(gh)) * bh;
        const double xx =
            x1 + (static_cast<double>(px) + (static_cast<double>(sx) + 0.5) / static_cast<double>(gw)) * bw;
        const bool inside = Bilinear(yy, h, ty) && Bilinear(xx, w, tx);
        for (int k = 0; k < 4; ++k) {
          const double v =
              inside ? ty[k / 2].weight * tx[k % 2].weight * plane[ty[k / 2].at * w + tx[k % 2].at] : 0;
          sum += v;
          best = any ? std::max(best, v) : v;
          any = true;
        }
      }
    }
    y.v[static_cast<size_t>(i)] = max ? best : sum / static_cast<double>(std::max<int64_t>(1, gh * gw));
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Col2Im(Call& c) {
  const Tensor& x = c.in(0);
  const std::vector<int64_t> image = Ints(c.in(1)), block = Ints(c.in(2));
  const auto strides = c.attrs->Ints("strides"), dilations = c.attrs->Ints("dilations"),
             pads = c.attrs->Ints("pads");
  const size_t s = image.size();
  Dims taps, blocks, space;
  for (size_t i = 0; i < s; ++i) {
    const int64_t stride = strides.empty() ? 1 : strides[i], dilation = dilations.empty() ? 1 : dilations[i];
    const int64_t padded = image[i] + (pads.empty() ? 0 : pads[i] + pads[s + i]);
    taps.push_back(block[i]);
    space.push_back(image[i]);
    blocks.push_back((padded - dilation * (block[i] - 1) - 1) / stride + 1);
  }
  const int64_t per = NumElements(taps), count = NumElements(blocks), channels = per ? x.dims[1] / per : 0;
  Dims dims{x.dims[0], channels};
  for (int64_t d : space) dims.push_back(d);
  Tensor y = Tensor::Make(x.dtype, dims);
  c.abs_sum.assign(y.v.size(), 0);
  c.reduction_length = std::max<int64_t>(1, per);
  const int64_t area = NumElements(space);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t tap = i / count % per, l = i % count;
    std::vector<int64_t> at(s);
    bool inside = true;
    for (size_t d = s; d-- > 0;) {
      const int k = static_cast<int>(d);
      at[d] = l % blocks[k] * (strides.empty() ? 1 : strides[d]) +
              tap % taps[k] * (dilations.empty() ? 1 : dilations[d]) - (pads.empty() ? 0 : pads[d]);
      l /= blocks[k];
      tap /= taps[k];
      inside &= at[d] >= 0 && at[d] < image[d];
    }
    if (!inside) continue;
    const size_t to = static_cast<size_t>(i / count / per * area + Offset(at, space));
    y.v[to] += x.v[static_cast<size_t>(i)];
    c.abs_sum[to] += std::fabs(x.v[static_cast<size_t>(i)]);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {
    {"GridSample", GridSample}, {"AffineGrid", AffineGrid}, {"RoiAlign", RoiAlign}, {"Col2Im", Col2Im}};

}  // namespace

std::span<const Entry> ImageTable() { return kTable; }

}  // namespace opsnn::ref
