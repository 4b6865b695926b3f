// Losses of class scores (N, C, ...) against targets (N, ...).
#include <algorithm>
#include <cmath>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

// The loss of log-probabilities x; `scale` (of the size of x) says what each is uncertain relative to.
Status Loss(Call& c, const Tensor& x, const Tensor& scale) {
  const Tensor& target = c.in(1);
  const int64_t classes = x.dims[1], inner = target.size() && x.dims[0] ? target.size() / x.dims[0] : 0;
  const bool ignores = c.attrs->Has("ignore_index");
  const int64_t ignored = c.attrs->Int("ignore_index", 0);
  const std::string reduction = c.attrs->String("reduction", "mean");
  Tensor each = Tensor::Make(x.dtype, target.dims);
  std::vector<double> abs(each.v.size(), 0);
  double weights = 0;
  for (int64_t i = 0; i < target.size(); ++i) {
    const int64_t t = static_cast<int64_t>(target.v[static_cast<size_t>(i)]);
    if (ignores && t == ignored) continue;
    if (t < 0 || t >= classes) return InvalidArgument("target %lld is no class", static_cast<long long>(t));
    const double w = c.has(2) ? c.in(2).v[static_cast<size_t>(t)] : 1;
    const size_t at = static_cast<size_t>((i / inner * classes + t) * inner + i % inner);
    each.v[static_cast<size_t>(i)] = -w * x.v[at];
    abs[static_cast<size_t>(i)] = std::fabs(w * scale.v[at]);
    weights += w;
  }
  if (reduction == "none") {
    c.abs_sum = std::move(abs);
    c.outputs.insert(c.outputs.begin(), std::move(each));
    return OkStatus();
  }
  Tensor sum = Tensor::Make(x.dtype, {});
  c.abs_sum.assign(1, 0);
  c.reduction_length = std::max<int64_t>(1, target.size());
  const double divisor = reduction == "mean" ? weights : 1;
  for (size_t i = 0; i < each.v.size(); ++i) {
    sum.v[0] += each.v[i];
    c.abs_sum[0] += abs[i] / std::fabs(divisor);
  }
  sum.v[0] /= divisor;
  c.outputs.insert(c.outputs.begin(), std::move(sum));
  return OkStatus();
}

Status NegativeLogLikelihoodLoss(Call& c) { return Loss(c, c.in(0), c.in(0)); }

Status SoftmaxCrossEntropyLoss(Call& c) {
  Tensor y = c.in(0), scale = c.in(0);
  const int64_t classes = y.dims[1];
  int64_t inner = 1;
  for (int i = 2; i < y.dims.rank(); ++i) inner *= y.dims[i];
  for (int64_t row = 0; row < (classes ? y.size() / classes : 0); ++row) {
    const int64_t first = row / inner * classes * inner + row % inner;
    double max = -HUGE_VAL, sum = 0;
    for (int64_t k = 0; k < classes; ++k) max = std::max(max, y.v[static_cast<size_t>(first + k * inner)]);
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(y.v[static_cast<size_t>(first + k * inner)] - max);
    for (int64_t k = 0; k < classes; ++k) {
      double& v = y.v[static_cast<size_t>(first + k * inner)];
      scale.v[static_cast<size_t>(first + k * inner)] = std::fabs(v) + std::fabs(max) + std::log(sum);
      v -= max + std::log(sum);
    }
  }
  c.outputs.push_back(y);
  return Loss(c, y, scale);
}

constexpr Entry kTable[] = {{"NegativeLogLikelihoodLoss", NegativeLogLikelihoodLoss},
                            {"SoftmaxCrossEntropyLoss", SoftmaxCrossEntropyLoss}};

}  // namespace

std::span<const Entry> LossTable() { return kTable; }

}  // namespace opsnn::ref
