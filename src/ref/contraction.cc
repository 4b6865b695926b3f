// Matrix products and convolutions, straight from their sums. Each also fills abs_sum = sum |a_i b_i|, which
// error bounds scale with. Whole models are recomputed with them, so the work is divided among the threads;
// every output element is still summed by one thread in the written order.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "ref/internal.h"

namespace opsnn::ref {
namespace {

// Numpy rules: 1-D operands are promoted, batch dims broadcast.
Result<Dims> BatchOf(const Dims& a, const Dims& b) {
  Dims x = a, y = b;
  x.resize(std::max(0, a.rank() - 2));
  y.resize(std::max(0, b.rank() - 2));
  return BroadcastDims(x, y);
}

// sum[i] += x * b[i * step]; abs[i] the same of magnitudes.
void AddScaled(int64_t n, double x, const double* b, int64_t step, double* sum, double* abs) {
  if (step != 1) {
    for (int64_t i = 0; i < n; ++i) {
      const double t = x * b[i * step];
      sum[i] += t;
      abs[i] += std::fabs(t);
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const double t = x * b[i];
    sum[i] += t;
    abs[i] += std::fabs(t);
  }
}

Status MatMul(Call& c) {
  Dims ad = c.in(0).dims, bd = c.in(1).dims;
  const bool a1 = ad.rank() == 1, b1 = bd.rank() == 1;
  if (a1) ad.insert(0, 1);
  if (b1) bd.push_back(1);
  const bool ta = c.attrs->Int("transA", 0), tb = c.attrs->Int("transB", 0);
  const int ra = ad.rank(), rb = bd.rank();
  const int64_t m = ad[ra - (ta ? 1 : 2)], k = ad[ra - (ta ? 2 : 1)], n = bd[rb - (tb ? 2 : 1)];
  OPSNN_ASSIGN_OR_RETURN(Dims dims, BatchOf(ad, bd));
  const Dims batch = dims;
  Dims ab = ad, bb = bd;
  ab.resize(ra - 2);
  bb.resize(rb - 2);
  if (!a1) dims.push_back(m);
  if (!b1) dims.push_back(n);
  Tensor y = Tensor::Make(c.in(0).dtype, dims);
  c.abs_sum.assign(y.v.size(), 0);
  c.reduction_length = k;
  const Dims order = ContiguousStrides(batch);
  // Row r of the product: row r % m of batch r / m.
  ParallelFor(m * n > 0 ? NumElements(batch) * m : 0, [&](int64_t r, int) {
    std::vector<int64_t> index(batch.rank());
    for (int d = 0; d < batch.rank(); ++d) index[d] = r / m / order[d] % batch[d];
    const double* a = c.in(0).v.data() + BroadcastOffset(index, ab) * m * k;
    const double* b = c.in(1).v.data() + BroadcastOffset(index, bb) * k * n;
    double* sum = y.v.data() + r * n;
    double* abs = c.abs_sum.data() + r * n;
    const int64_t i = r % m;
    for (int64_t l = 0; l < k; ++l) {
      const double x = ta ? a[l * m + i] : a[i * k + l];
      if (!tb) AddScaled(n, x, b + l * n, 1, sum, abs);
    }
    for (int64_t j = 0; tb && j < n; ++j) {
      for (int64_t l = 0; l < k; ++l) {
        const double t = (ta ? a[l * m + i] : a[i * k + l]) * b[j * k + l];
        sum[j] += t;
        abs[j] += std::fabs(t);
      }
    }
  });
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Gemm(Call& c) {
  Call product = c;
  product.inputs = c.inputs.subspan(0, 2);
  OPSNN_RETURN_IF_ERROR(MatMul(product));
  Tensor y = std::move(product.outputs[0]);
  c.abs_sum = std::move(product.abs_sum);
  c.reduction_length = product.reduction_length;
  const double alpha = c.attrs->Float("alpha", 1), beta = c.attrs->Float("beta", 1);
  std::vector<int64_t> index(2, 0);
  for (int64_t i = 0; i < y.size(); ++i, Next(index, y.dims)) {
    y.v[i] *= alpha;
    c.abs_sum[i] *= std::fabs(alpha);
    if (c.has(2) && beta != 0) {  // beta = 0 ignores C, whatever it holds
      const double t = beta * c.in(2).v[BroadcastOffset(index, c.in(2).dims)];
      y.v[i] += t;
      c.abs_sum[i] += std::fabs(t);
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// Spatial geometry of a convolution in up to three dims, missing leading dims being 1.
struct Geometry {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, pad_end[3] = {0, 0, 0};
  int64_t out_pad[3] = {0, 0, 0};
};

Geometry Read(const Call& c, bool transposed) {
  Geometry g;
  const Dims& x = c.in(0).dims;
  const Dims& w = c.in(1).dims;
  const int s = x.rank() - 2, base = 3 - s;
  const auto strides = c.attrs->Ints("strides"), dilations = c.attrs->Ints("dilations"),
             pads = c.attrs->Ints("pads");
  const auto out_pads = c.attrs->Ints("output_padding"), out_shape = c.attrs->Ints("output_shape");
  const std::string auto_pad = c.attrs->String("auto_pad", "NOTSET");
  for (int i = 0; i < s; ++i) {
    const int d = base + i;
    g.in[d] = x[2 + i];
    g.kernel[d] = w[2 + i];
    if (!strides.empty()) g.stride[d] = strides[i];
    if (!dilations.empty()) g.dilation[d] = dilations[i];
    if (!out_pads.empty()) g.out_pad[d] = out_pads[i];
    if (!pads.empty()) g.pad[d] = pads[i], g.pad_end[d] = pads[s + i];
    const int64_t reach = (g.kernel[d] - 1) * g.dilation[d] + 1;
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (!transposed) {
      if (same) {
        const int64_t out = (g.in[d] + g.stride[d] - 1) / g.stride[d];
        const int64_t total = std::max<int64_t>(0, (out - 1) * g.stride[d] + reach - g.in[d]);
        g.pad[d] = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
        g.pad_end[d] = total - g.pad[d];
      }
      g.out[d] = (g.in[d] + g.pad[d] + g.pad_end[d] - reach) / g.stride[d] + 1;
    } else {
      const int64_t full = (g.in[d] - 1) * g.stride[d] + reach + g.out_pad[d];
      if (!out_shape.empty() || same) {
        const int64_t out = out_shape.empty() ? g.in[d] * g.stride[d] : out_shape[out_shape.size() - s + i];
        const int64_t cut = std::max<int64_t>(0, full - out);
        g.pad[d] = auto_pad == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
        g.pad_end[d] = full - out - g.pad[d];  // negative: positions that no input reaches
      }
      g.out[d] = full - g.pad[d] - g.pad_end[d];
    }
  }
  return g;
}

Tensor MakeOutput(const Call& c, const Geometry& g, int64_t channels) {
  Dims dims{c.in(0).dims[0], channels};
  const int s = c.in(0).dims.rank() - 2;
  for (int i = 0; i < s; ++i) dims.push_back(g.out[3 - s + i]);
  return Tensor::Make(c.in(0).dtype, dims);
}

void AddBias(Call& c, Tensor& y) {
  if (!c.has(2)) return;
  const int64_t channels = y.dims[1];
  const int64_t area = channels && y.dims[0] ? y.size() / (channels * y.dims[0]) : 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    const double b = c.in(2).v[i / area % channels];
    y.v[i] += b;
    c.abs_sum[i] += std::fabs(b);
  }
}

Status Conv(Call& c) {
  const Geometry g = Read(c, false);
  const int64_t groups = c.attrs->Int("group", 1), n = c.in(0).dims[0], ci = c.in(0).dims[1],
                co = c.in(1).dims[0];
  const int64_t cig = ci / groups, cog = co / groups;
  Tensor y = MakeOutput(c, g, co);
  c.abs_sum.assign(y.v.size(), 0);
  c.reduction_length = cig * g.kernel[0] * g.kernel[1] * g.kernel[2];
  const int64_t in_area = g.in[0] * g.in[1] * g.in[2], out_area = g.out[0] * g.out[1] * g.out[2];
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  ParallelFor(n * co, [&](int64_t channel, int) {
    const int64_t b = channel / co, o = channel % co;
    double* out = y.v.data() + channel * out_area;
    double* abs = c.abs_sum.data() + channel * out_area;
    for (int64_t i = 0; i < cig; ++i) {
      const double* in = c.in(0).v.data() + (b * ci + o / cog * cig + i) * in_area;
      for (int64_t t = 0; t < taps; ++t) {
        const double w = c.in(1).v[(o * cig + i) * taps + t];
        const int64_t kd = t / (g.kernel[1] * g.kernel[2]), kh = t / g.kernel[2] % g.kernel[1],
                      kw = t % g.kernel[2];
        // The columns whose tap lies inside the input: [first, last).
        const int64_t shift = kw * g.dilation[2] - g.pad[2], s = g.stride[2];
        const int64_t first = std::max<int64_t>(0, shift >= 0 ? 0 : (-shift + s - 1) / s);
        const int64_t last = std::min(g.out[2], g.in[2] > shift ? (g.in[2] - shift + s - 1) / s : 0);
        for (int64_t d = 0; first < last && d < g.out[0]; ++d) {
          const int64_t id = d * g.stride[0] - g.pad[0] + kd * g.dilation[0];
          if (id < 0 || id >= g.in[0]) continue;
          for (int64_t h = 0; h < g.out[1]; ++h) {
            const int64_t ih = h * g.stride[1] - g.pad[1] + kh * g.dilation[1];
            if (ih < 0 || ih >= g.in[1]) continue;
            const int64_t row = (d * g.out[1] + h) * g.out[2] + first;
            AddScaled(last - first, w, in + (id * g.in[1] + ih) * g.in[2] + first * s + shift, s, out + row,
                      abs + row);
          }
        }
      }
    }
  });
  AddBias(c, y);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// Scatter form: every input element adds w * x to the outputs it reaches.
Status ConvTranspose(Call& c) {
  const Geometry g = Read(c, true);
  const int64_t groups = c.attrs->Int("group", 1), n = c.in(0).dims[0], ci = c.in(0).dims[1];
  const int64_t cog = c.in(1).dims[1], co = cog * groups, cig = ci / groups;
  Tensor y = MakeOutput(c, g, co);
  c.abs_sum.assign(y.v.size(), 0);
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  c.reduction_length = cig * taps;
  const int64_t in_area = g.in[0] * g.in[1] * g.in[2], out_area = g.out[0] * g.out[1] * g.out[2];
  for (int64_t b = 0; b < n; ++b) {
    for (int64_t i = 0; i < ci; ++i) {
      for (int64_t o = 0; o < cog; ++o) {
        const int64_t channel = i / cig * cog + o;
        double* out = y.v.data() + (b * co + channel) * out_area;
        double* abs = c.abs_sum.data() + (b * co + channel) * out_area;
        for (int64_t p = 0; p < in_area; ++p) {
          const double x = c.in(0).v[(b * ci + i) * in_area + p];
          const int64_t d = p / (g.in[1] * g.in[2]), h = p / g.in[2] % g.in[1], w = p % g.in[2];
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t od = d * g.stride[0] - g.pad[0] + t / (g.kernel[1] * g.kernel[2]) * g.dilation[0];
            const int64_t oh = h * g.stride[1] - g.pad[1] + t / g.kernel[2] % g.kernel[1] * g.dilation[1];
            const int64_t ow = w * g.stride[2] - g.pad[2] + t % g.kernel[2] * g.dilation[2];
            if (od < 0 || od >= g.out[0] || oh < 0 || oh >= g.out[1] || ow < 0 || ow >= g.out[2]) continue;
            const double term = x * c.in(1).v[(i * cog + o) * taps + t];
            out[(od * g.out[1] + oh) * g.out[2] + ow] += term;
            abs[(od * g.out[1] + oh) * g.out[2] + ow] += std::fabs(term);
          }
        }
      }
    }
  }
  AddBias(c, y);
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// What a deformable convolution samples, (N, C, OH * kernel rows, OW * kernel columns), and the magnitudes of
// the pixels that it lies between.
void Sample(const Call& c, const Geometry& g, Tensor* columns, Tensor* magnitudes) {
  const Tensor &x = c.in(0), &offset = c.in(2);
  const int64_t n = x.dims[0], channels = x.dims[1], rows = g.kernel[1], cols = g.kernel[2],
                taps = rows * cols, area = g.out[1] * g.out[2], groups = c.attrs->Int("offset_group", 1),
                values = groups * taps;
  const bool planes = c.attrs->Int("offset_planes", 0) != 0;
  *columns = *magnitudes = Tensor::Make(x.dtype, {n, channels, g.out[1] * rows, g.out[2] * cols});
  for (int64_t i = 0; i < columns->size(); ++i) {
    const int64_t column = i % (g.out[2] * cols), row = i / (g.out[2] * cols) % (g.out[1] * rows),
                  plane = i / (area * taps), b = plane / channels;
    const int64_t p = row / rows * g.out[2] + column / cols,
                  value = plane % channels / (channels / groups) * taps + row % rows * cols + column % cols;
    const auto at = [&](int64_t channel) { return offset.v[(b * offset.dims[1] + channel) * area + p]; };
    const double down = planes ? at(values + value) : at(2 * value),
                 right = planes ? at(value) : at(2 * value + 1);
    double mask = c.has(4) ? c.in(4).v[(b * values + value) * area + p] : 1;
    if (planes && offset.dims[1] == 3 * values) mask = at(2 * values + value);
    const double y = static_cast<double>(row / rows * g.stride[1] - g.pad[1] + row % rows * g.dilation[1]) +
                     down,
                 z = static_cast<double>(column / cols * g.stride[2] - g.pad[2] +
                                         column % cols * g.dilation[2]) +
                     right;
    for (int64_t h = 0; h < g.in[1]; ++h)
      for (int64_t w = 0; w < g.in[2]; ++w) {
        const double near_h = 1 - std::fabs(y - static_cast<double>(h)),
                     near_w = 1 - std::fabs(z - static_cast<double>(w));
        if (near_h <= 0 || near_w <= 0) continue;
        const double pixel = mask * x.v[(plane * g.in[1] + h) * g.in[2] + w];
        columns->v[i] += near_h * near_w * pixel;
        magnitudes->v[i] += std::fabs(pixel);
      }
  }
}

Status DeformConv(Call& c) {
  Tensor columns, magnitudes, weights = c.in(1), sizes = c.in(1);
  const Geometry g = Read(c, false);
  Sample(c, g, &columns, &magnitudes);
  for (double& w : sizes.v) w = std::fabs(w);
  op::Attrs attrs;
  attrs.Set("strides", std::vector<int64_t>{g.kernel[1], g.kernel[2]});
  attrs.Set("group", c.attrs->Int("group", 1));
  Call sum = c, bound = c;
  const Tensor* const bias = c.has(3) ? c.inputs[3] : nullptr;
  const Tensor* const inputs[] = {&columns, &weights, bias};
  const Tensor* const absolute[] = {&magnitudes, &sizes, bias};
  sum.attrs = bound.attrs = &attrs;
  sum.inputs = inputs, bound.inputs = absolute;
  OPSNN_RETURN_IF_ERROR(Conv(sum));
  OPSNN_RETURN_IF_ERROR(Conv(bound));
  c.outputs = std::move(sum.outputs);
  if (c.num_outputs > 1) c.outputs.push_back(std::move(columns));
  c.abs_sum = std::move(bound.abs_sum);
  constexpr int64_t kSampling = 8;  // four shares of two factors, and the mask
  c.reduction_length = sum.reduction_length + kSampling;
  return OkStatus();
}

// Both operands less their zero points: one value, or one per row of A and per column of B.
Status MatMulInteger(Call& c) {
  Tensor operands[2] = {c.in(0), c.in(1)};
  for (int k = 0; k < 2; ++k) {
    Tensor& t = operands[k];
    if (!c.has(2 + k)) continue;
    const Tensor& zero = c.in(2 + k);
    const int64_t cols = t.dims.back(), rows = t.dims.rank() > 1 ? t.dims[t.dims.rank() - 2] : 1;
    for (int64_t i = 0; i < t.size(); ++i) {
      const int64_t at = zero.size() == 1 ? 0 : k == 0 ? i / cols % rows : i % cols;
      t.v[i] -= zero.v[at];
    }
  }
  const Tensor* const inputs[] = {&operands[0], &operands[1]};
  Call product = c;
  product.inputs = inputs;
  OPSNN_RETURN_IF_ERROR(MatMul(product));
  c.outputs = std::move(product.outputs);
  return OkStatus();
}

// By elimination with the largest pivot. Rounding is relative to the product of the row norms at worst.
Status Det(Call& c) {
  const Tensor& x = c.in(0);
  const int rank = x.dims.rank();
  const int64_t n = x.dims[rank - 1];
  Dims dims = x.dims;
  dims.resize(rank - 2);
  Tensor y = Tensor::Make(x.dtype, dims, 1);
  c.abs_sum.assign(y.v.size(), 1);
  c.reduction_length = std::max<int64_t>(1, n * n);
  for (int64_t b = 0; b < y.size(); ++b) {
    std::vector<double> a(x.v.begin() + b * n * n, x.v.begin() + (b + 1) * n * n);
    for (int64_t r = 0; r < n; ++r) {
      double norm = 0;
      for (int64_t k = 0; k < n; ++k) norm += a[r * n + k] * a[r * n + k];
      c.abs_sum[b] *= std::sqrt(norm);
    }
    for (int64_t k = 0; k < n; ++k) {
      int64_t best = k;
      for (int64_t r = k; r < n; ++r)
        if (!(std::fabs(a[r * n + k]) <= std::fabs(a[best * n + k]))) best = r;  // NaN is taken, and stays
      if (best != k) {
        for (int64_t i = 0; i < n; ++i) std::swap(a[best * n + i], a[k * n + i]);
        y.v[b] = -y.v[b];
      }
      y.v[b] *= a[k * n + k];
      if (a[k * n + k] == 0) break;
      for (int64_t r = k + 1; r < n; ++r) {
        const double f = a[r * n + k] / a[k * n + k];
        for (int64_t i = k; i < n; ++i) a[r * n + i] -= f * a[k * n + i];
      }
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {{"MatMulInteger", MatMulInteger},
                            {"Det", Det},
                            {"MatMul", MatMul},
                            {"Gemm", Gemm},
                            {"Conv", Conv},
                            {"ConvTranspose", ConvTranspose},
                            {"DeformConv", DeformConv}};

}  // namespace

std::span<const Entry> ContractionTable() { return kTable; }

}  // namespace opsnn::ref
