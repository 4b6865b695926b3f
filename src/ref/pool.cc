// Pooling windows, one output element at a time.
#include <cmath>
#include <limits>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

struct Axis {
  int64_t in, out, kernel, stride, dilation, pad, pad_end;
};

// ONNX output size: floor or ceil of (in + pads - reach) / stride + 1; with ceil a window may not start
// beyond the padded input (the rule of opset 19 and of other frameworks).
Axis MakeAxis(const Call& c, int i, int s) {
  const auto kernel = c.attrs->Ints("kernel_shape"), strides = c.attrs->Ints("strides");
  const auto dilations = c.attrs->Ints("dilations"), pads = c.attrs->Ints("pads");
  const std::string auto_pad = c.attrs->String("auto_pad", "NOTSET");
  Axis a{c.in(0).dims[2 + i],
         0,
         kernel[i],
         strides.empty() ? 1 : strides[i],
         dilations.empty() ? 1 : dilations[i],
         pads.empty() ? 0 : pads[i],
         pads.empty() ? 0 : pads[s + i]};
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    a.out = (a.in + a.stride - 1) / a.stride;
    const int64_t total = std::max<int64_t>(0, (a.out - 1) * a.stride + reach - a.in);
    a.pad = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    a.pad_end = total - a.pad;
    return a;
  }
  const int64_t span = a.in + a.pad + a.pad_end - reach;
  a.out = span / a.stride + 1;
  if (c.attrs->Int("ceil_mode", 0) && span % a.stride != 0) {
    ++a.out;
    if ((a.out - 1) * a.stride >= a.in + a.pad) --a.out;
  }
  return a;
}

// visit(window element value or nothing for padding) is called per tap; returns through `f` the output value.
// `positions` takes where in the input the values of the window lie.
template <typename F>
Status Windows(Call& c, F f, std::vector<int64_t>* positions = nullptr) {
  const int s = c.in(0).dims.rank() - 2;
  std::vector<Axis> axes;
  Dims out{c.in(0).dims[0], c.in(0).dims[1]}, kernel, spatial, in;
  for (int i = 0; i < s; ++i) {
    axes.push_back(MakeAxis(c, i, s));
    out.push_back(axes[i].out);
    spatial.push_back(axes[i].out);
    kernel.push_back(axes[i].kernel);
    in.push_back(axes[i].in);
  }
  Tensor y = Tensor::Make(c.in(0).dtype, out);
  const int64_t planes = out[0] * out[1], in_area = NumElements(in), out_area = NumElements(spatial);
  for (int64_t p = 0; p < planes && out_area; ++p) {
    std::vector<int64_t> o(s, 0);
    for (int64_t q = 0; q < out_area; ++q, Next(o, spatial)) {
      std::vector<double> values;
      if (positions) positions->clear();
      int64_t counted = 0;  // taps inside the padded input
      std::vector<int64_t> t(s, 0), at(s);
      do {
        bool inside = true, padded = true;
        for (int i = 0; i < s; ++i) {
          at[i] = o[i] * axes[i].stride - axes[i].pad + t[i] * axes[i].dilation;
          inside &= at[i] >= 0 && at[i] < axes[i].in;
          padded &= at[i] < axes[i].in + axes[i].pad_end;
        }
        counted += padded;
        if (!inside) continue;
        values.push_back(c.in(0).v[p * in_area + Offset(at, in)]);
        if (positions) positions->push_back(p * in_area + Offset(at, in));
      } while (Next(t, kernel));
      y.v[p * out_area + q] = f(values, counted);
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

double MaxOf(const std::vector<double>& v) {
  double m = -std::numeric_limits<double>::infinity();
  for (double x : v) m = std::isnan(x) || std::isnan(m) ? std::nan("") : std::max(m, x);
  return m;
}

double SumOf(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}

Status MaxPool(Call& c) {
  // Column-major positions count the last axis slowest; there is no reference for them.
  if (c.num_outputs < 2 || c.attrs->Int("storage_order", 0) != 0)
    return Windows(c, [](const std::vector<double>& v, int64_t) { return MaxOf(v); });
  std::vector<int64_t> positions;
  std::vector<double> first;  // of equal ones; NaN is larger than all
  const auto max = [&](const std::vector<double>& v, int64_t) {
    size_t best = 0;
    for (size_t i = 1; i < v.size(); ++i)
      if (v[i] > v[best] || (std::isnan(v[i]) && !std::isnan(v[best]))) best = i;
    first.push_back(v.empty() ? 0 : static_cast<double>(positions[best]));
    return MaxOf(v);
  };
  OPSNN_RETURN_IF_ERROR(Windows(c, max, &positions));
  Tensor indices = Tensor::Make(DType::kS64, c.outputs[0].dims);
  indices.v = std::move(first);
  c.outputs.push_back(std::move(indices));
  return OkStatus();
}

Status AveragePool(Call& c) {
  const bool include = c.attrs->Int("count_include_pad", 0);
  auto mean_of_magnitudes = [&](const std::vector<double>& v, int64_t counted) {
    double s = 0;
    for (double x : v) s += std::fabs(x);
    return s / static_cast<double>(include ? counted : static_cast<int64_t>(v.size()));
  };
  OPSNN_RETURN_IF_ERROR(Windows(c, mean_of_magnitudes));
  std::vector<double> abs_sum = std::move(c.outputs[0].v);
  c.outputs.clear();
  for (int64_t k : c.attrs->Ints("kernel_shape")) c.reduction_length *= k;
  const Status status = Windows(c, [=](const std::vector<double>& v, int64_t counted) {
    return SumOf(v) / static_cast<double>(include ? counted : static_cast<int64_t>(v.size()));
  });
  c.abs_sum = std::move(abs_sum);
  return status;
}

template <bool kMax>
Status Global(Call& c) {
  Dims dims = c.in(0).dims;
  int64_t area = 1;
  for (int i = 2; i < dims.rank(); ++i) {
    area *= dims[i];
    dims[i] = 1;
  }
  Tensor y = Tensor::Make(c.in(0).dtype, dims);
  for (int64_t i = 0; i < y.size(); ++i) {
    const std::vector<double> v(c.in(0).v.begin() + i * area, c.in(0).v.begin() + (i + 1) * area);
    y.v[i] = kMax ? MaxOf(v) : SumOf(v) / static_cast<double>(area);
    if (kMax) continue;
    double magnitude = 0;
    for (double x : v) magnitude += std::fabs(x);
    c.abs_sum.push_back(magnitude / static_cast<double>(area));
  }
  c.reduction_length = kMax ? 1 : area;
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

double PowerMean(const std::vector<double>& v, double p) {
  double s = 0;
  for (double x : v) s += std::pow(std::fabs(x), p);
  return std::pow(s, 1 / p);
}

Status LpPool(Call& c) {
  const double p = static_cast<double>(c.attrs->Int("p", 2));
  OPSNN_RETURN_IF_ERROR(Windows(c, [p](const std::vector<double>& v, int64_t) { return PowerMean(v, p); }));
  for (int64_t k : c.attrs->Ints("kernel_shape")) c.reduction_length *= k;
  c.abs_sum = c.outputs[0].v;
  return OkStatus();
}

Status GlobalLpPool(Call& c) {
  const double p = static_cast<double>(c.attrs->Int("p", 2));
  Dims dims = c.in(0).dims;
  int64_t area = 1;
  for (int i = 2; i < dims.rank(); ++i) area *= dims[i], dims[i] = 1;
  Tensor y = Tensor::Make(c.in(0).dtype, dims);
  for (int64_t i = 0; i < y.size(); ++i)
    y.v[i] = PowerMean({c.in(0).v.begin() + i * area, c.in(0).v.begin() + (i + 1) * area}, p);
  c.reduction_length = std::max<int64_t>(1, area);
  c.abs_sum = y.v;
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {
    {"LpPool", LpPool},           {"GlobalLpPool", GlobalLpPool},       {"MaxPool", MaxPool},
    {"AveragePool", AveragePool}, {"GlobalAveragePool", Global<false>}, {"GlobalMaxPool", Global<true>}};

}  // namespace

std::span<const Entry> PoolTable() { return kTable; }

}  // namespace opsnn::ref
