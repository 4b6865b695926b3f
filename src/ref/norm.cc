// Normalisations and softmax.
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

// Calls f(first element, stride, count) for every line of x along `axis`.
template <typename F>
void Lines(const Dims& dims, int axis, F f) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= dims[i];
  for (int i = axis + 1; i < dims.rank(); ++i) inner *= dims[i];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) f(o * dims[axis] * inner + i, inner, dims[axis]);
}

template <bool kLog>
Status Softmax(Call& c) {
  Tensor y = c.in(0);
  if (y.dims.rank() == 0) {
    y.v[0] = kLog ? 0 : 1;
    c.outputs.push_back(std::move(y));
    return OkStatus();
  }
  if (y.size() == 0) {
    c.outputs.push_back(std::move(y));
    return OkStatus();
  }
  const int axis = NormAxis(c.attrs->Int("axis", -1), y.dims.rank());
  Lines(y.dims, axis, [&](int64_t at, int64_t stride, int64_t n) {
    double max = y.v[at], sum = 0;
    for (int64_t i = 1; i < n; ++i) max = std::max(max, y.v[at + i * stride]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp(y.v[at + i * stride] - max);
    for (int64_t i = 0; i < n; ++i) {
      double& v = y.v[at + i * stride];
      const double shifted = v - max;
      v = kLog ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// y = (x - mean) / sqrt(var + eps) * scale + bias over the dims from `axis` on; RMS leaves the mean alone.
template <bool kRms>
Status LayerNorm(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = NormAxis(c.attrs->Int("axis", -1), x.dims.rank());
  const double eps = c.attrs->Float("epsilon", 1e-5);
  int64_t n = 1;
  Dims stat_dims = x.dims;
  for (int i = axis; i < x.dims.rank(); ++i) {
    n *= x.dims[i];
    stat_dims[i] = 1;
  }
  Dims row_dims;
  for (int i = axis; i < x.dims.rank(); ++i) row_dims.push_back(x.dims[i]);
  Tensor y = Tensor::Make(x.dtype, x.dims), mean = Tensor::Make(x.dtype, stat_dims), inv = mean;
  const int64_t rows = n ? x.size() / n : 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double* in = x.v.data() + r * n;
    double m = 0, var = 0;
    for (int64_t i = 0; i < n; ++i) m += in[i];
    m = kRms ? 0 : m / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) var += (in[i] - m) * (in[i] - m);
    mean.v[r] = m;
    inv.v[r] = 1 / std::sqrt(var / static_cast<double>(n) + eps);
    std::vector<int64_t> index(row_dims.rank(), 0);
    for (int64_t i = 0; i < n; ++i, Next(index, row_dims)) {
      const double scale = c.has(1) ? c.in(1).v[BroadcastOffset(index, c.in(1).dims)] : 1;
      const double bias = c.has(2) ? c.in(2).v[BroadcastOffset(index, c.in(2).dims)] : 0;
      y.v[r * n + i] = (in[i] - m) * inv.v[r] * scale + bias;
    }
  }
  c.outputs.push_back(std::move(y));
  if (c.num_outputs > 1) c.outputs.push_back(std::move(mean));
  if (c.num_outputs > 2) c.outputs.push_back(std::move(inv));
  return OkStatus();
}

Status BatchNormalization(Call& c) {
  const Tensor& x = c.in(0);
  Tensor y = Tensor::Make(x.dtype, x.dims);
  const double eps = c.attrs->Float("epsilon", 1e-5);
  c.abs_sum.assign(y.v.size(), 0);
  const int64_t channels = x.dims.rank() > 1 ? x.dims[1] : 1;
  int64_t area = 1;
  for (int i = 2; i < x.dims.rank(); ++i) area *= x.dims[i];
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t ch = i / area % channels;
    const double a = c.in(1).v[ch] / std::sqrt(c.in(4).v[ch] + eps), mean = c.in(3).v[ch], b = c.in(2).v[ch];
    y.v[i] = (x.v[i] - mean) * a + b;
    c.abs_sum[i] = (std::fabs(x.v[i]) + std::fabs(mean)) * std::fabs(a) + std::fabs(b);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

// The same with the statistics of x over all dims but the channels, and running averages of them.
Status BatchNormalizationTraining(Call& c) {
  const Tensor& x = c.in(0);
  Tensor y = Tensor::Make(x.dtype, x.dims), running[2] = {c.in(3), c.in(4)};
  const double eps = c.attrs->Float("epsilon", 1e-5), momentum = c.attrs->Float("momentum", 0.9);
  const int64_t channels = x.dims.rank() > 1 ? x.dims[1] : 1;
  int64_t area = 1;
  for (int i = 2; i < x.dims.rank(); ++i) area *= x.dims[i];
  c.abs_sum.assign(y.v.size(), 0);
  c.reduction_length = channels > 0 ? x.size() / channels : 0;
  const double n = static_cast<double>(c.reduction_length);
  std::vector<double> mean(channels, 0), var(channels, 0);
  for (int64_t i = 0; i < x.size(); ++i) mean[i / area % channels] += x.v[i];
  for (double& m : mean) m /= n;
  for (int64_t i = 0; i < x.size(); ++i) {
    const double away = x.v[i] - mean[i / area % channels];
    var[i / area % channels] += away * away;
  }
  for (double& v : var) v /= n;
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t ch = i / area % channels;
    const double a = c.in(1).v[ch] / std::sqrt(var[ch] + eps), b = c.in(2).v[ch];
    y.v[i] = (x.v[i] - mean[ch]) * a + b;
    c.abs_sum[i] = (std::fabs(x.v[i]) + std::fabs(mean[ch])) * std::fabs(a) + std::fabs(b);
  }
  for (int64_t ch = 0; ch < channels; ++ch) {
    running[0].v[ch] = momentum * running[0].v[ch] + (1 - momentum) * mean[ch];
    running[1].v[ch] = momentum * running[1].v[ch] + (1 - momentum) * var[ch];
  }
  c.outputs.push_back(std::move(y));
  for (int i = 0; i + 1 < c.num_outputs && i < 2; ++i) c.outputs.push_back(std::move(running[i]));
  return OkStatus();
}

// (x - mean) / sqrt(var + eps) * scale + bias over neighbouring channels of an image; scale and bias have one
// value per channel or per group.
Status NormGroups(Call& c, int64_t groups) {
  Tensor y = c.in(0);
  const double eps = c.attrs->Float("epsilon", 1e-5);
  const int64_t channels = y.dims[1], rows = y.dims[0] * groups;
  const int64_t n = rows > 0 ? y.size() / rows : 0, per_channel = n * groups / std::max<int64_t>(channels, 1);
  for (int64_t r = 0; r < rows && n > 0; ++r) {
    double* row = y.v.data() + r * n;
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; ++i) mean += row[i];
    mean /= static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) var += (row[i] - mean) * (row[i] - mean);
    const double inv = 1 / std::sqrt(var / static_cast<double>(n) + eps);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t group = r % groups, channel = group * (channels / groups) + i / per_channel;
      const int64_t at = c.in(1).size() == channels ? channel : group;
      row[i] = (row[i] - mean) * inv * c.in(1).v[at] + c.in(2).v[at];
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}
Status GroupNormalization(Call& c) { return NormGroups(c, c.attrs->Int("num_groups", 1)); }
Status InstanceNormalization(Call& c) { return NormGroups(c, c.in(0).dims[1]); }

// x / (sum |x|^p)^(1/p); a row of zeros stays.
Status LpNormalization(Call& c) {
  Tensor y = c.in(0);
  const bool l1 = c.attrs->Int("p", 2) == 1;
  if (y.size() > 0) {
    Lines(y.dims, NormAxis(c.attrs->Int("axis", -1), y.dims.rank()),
          [&](int64_t at, int64_t stride, int64_t n) {
            double sum = 0;
            for (int64_t i = 0; i < n; ++i) {
              const double v = y.v[at + i * stride];
              sum += l1 ? std::fabs(v) : v * v;
            }
            const double norm = l1 ? sum : std::sqrt(sum);
            for (int64_t i = 0; i < n && norm != 0; ++i) y.v[at + i * stride] /= norm;
          });
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Hardmax(Call& c) {
  const Tensor& x = c.in(0);
  Tensor y = Tensor::Make(x.dtype, x.dims);
  if (x.dims.rank() == 0) y.v[0] = 1;
  if (x.dims.rank() > 0 && x.size() > 0)
    Lines(x.dims, NormAxis(c.attrs->Int("axis", -1), x.dims.rank()),
          [&](int64_t at, int64_t stride, int64_t n) {
            int64_t best = 0;
            for (int64_t i = 1; i < n; ++i) {
              const double v = x.v[at + i * stride], b = x.v[at + best * stride];
              if (v > b || (std::isnan(v) && !std::isnan(b))) best = i;
            }
            y.v[at + best * stride] = 1;
          });
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status Lrn(Call& c) {
  const Tensor& x = c.in(0);
  const double alpha = c.attrs->Float("alpha", 1e-4), beta = c.attrs->Float("beta", 0.75);
  const double bias = c.attrs->Float("bias", 1);
  const int64_t size = c.attrs->Int("size", 1), before = (size - 1) / 2, behind = size - 1 - before;
  Tensor y = x;
  c.abs_sum.assign(y.v.size(), 0);
  if (x.size() > 0)
    Lines(x.dims, 1, [&](int64_t at, int64_t stride, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t k = std::max<int64_t>(0, i - before); k <= std::min(n - 1, i + behind); ++k)
          sum += x.v[at + k * stride] * x.v[at + k * stride];
        double& v = y.v[at + i * stride];
        v /= std::pow(bias + alpha / static_cast<double>(size) * sum, beta);
        c.abs_sum[at + i * stride] = std::fabs(v) * (1 + std::fabs(beta));
      }
    });
  c.reduction_length = size;
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status MeanVarianceNormalization(Call& c) {
  const Tensor& x = c.in(0);
  std::vector<int64_t> axes = c.attrs->Ints("axes");
  if (!c.attrs->Has("axes")) axes = {0, 2, 3};
  Dims kept = x.dims;
  for (int64_t a : axes) kept[NormAxis(a, x.dims.rank())] = 1;
  Tensor y = x, mean = Tensor::Make(x.dtype, kept), var = mean;
  const double n = static_cast<double>(std::max<int64_t>(1, mean.size() ? x.size() / mean.size() : 1));
  const auto each = [&](auto f) {
    std::vector<int64_t> at(static_cast<size_t>(x.dims.rank()), 0);
    for (int64_t i = 0; i < x.size(); ++i, Next(at, x.dims)) f(i, BroadcastOffset(at, kept));
  };
  each([&](int64_t i, int64_t g) { mean.v[g] += x.v[i] / n; });
  each([&](int64_t i, int64_t g) { var.v[g] += (x.v[i] - mean.v[g]) * (x.v[i] - mean.v[g]) / n; });
  each([&](int64_t i, int64_t g) { y.v[i] = (x.v[i] - mean.v[g]) / (std::sqrt(var.v[g]) + 1e-9); });
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

constexpr Entry kTable[] = {{"Hardmax", Hardmax},
                            {"LRN", Lrn},
                            {"MeanVarianceNormalization", MeanVarianceNormalization},
                            {"Softmax", Softmax<false>},
                            {"LogSoftmax", Softmax<true>},
                            {"LayerNormalization", LayerNorm<false>},
                            {"RMSNormalization", LayerNorm<true>},
                            {"BatchNormalization", BatchNormalization},
                            {"BatchNormalizationTraining", BatchNormalizationTraining},
                            {"GroupNormalization", GroupNormalization},
                            {"InstanceNormalization", InstanceNormalization},
                            {"LpNormalization", LpNormalization}};

}  // namespace

std::span<const Entry> NormTable() { return kTable; }

}  // namespace opsnn::ref
