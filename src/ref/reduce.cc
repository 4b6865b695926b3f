// Reductions over any axes, argmax, topk and running sums.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ref/internal.h"

namespace opsnn::ref {
namespace {

enum class Kind { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kSumSquare, kLogSum, kLogSumExp };

// Elements of each reduced group, in row-major order.
double ReduceGroup(Kind kind, const std::vector<double>& v) {
  double sum = 0, prod = 1, abs = 0, square = 0;
  double max = -std::numeric_limits<double>::infinity(), min = -max;
  bool nan = false;
  for (double x : v) {
    sum += x;
    prod *= x;
    abs += std::fabs(x);
    square += x * x;
    max = std::max(max, x);
    min = std::min(min, x);
    nan |= std::isnan(x);
  }
  switch (kind) {
    case Kind::kSum:
      return sum;
    case Kind::kMean:
      return sum / static_cast<double>(v.size());
    case Kind::kMax:
      return nan ? std::nan("") : max;
    case Kind::kMin:
      return nan ? std::nan("") : min;
    case Kind::kProd:
      return prod;
    case Kind::kL1:
      return abs;
    case Kind::kL2:
      return std::sqrt(square);
    case Kind::kSumSquare:
      return square;
    case Kind::kLogSum:
      return std::log(sum);
    case Kind::kLogSumExp:
      break;
  }
  if (std::isinf(max)) return max;  // no elements, all -Inf, or some +Inf
  double exps = 0;
  for (double x : v) exps += std::exp(x - max);
  return max + std::log(exps);
}

template <Kind kKind>
Status Reduce(Call& c) {
  const Tensor& x = c.in(0);
  const int rank = x.dims.rank();
  Dims kept, out;
  ReducedDims(c, &kept, &out);
  int64_t length = 1;
  for (int i = 0; i < rank; ++i)
    if (kept[i] != x.dims[i]) length *= x.dims[i];
  std::vector<std::vector<double>> groups(static_cast<size_t>(NumElements(kept)));
  std::vector<int64_t> index(rank, 0);
  for (int64_t i = 0; i < x.size(); ++i, Next(index, x.dims)) {
    groups[static_cast<size_t>(BroadcastOffset(index, kept))].push_back(x.v[i]);
  }
  Tensor y = Tensor::Make(x.dtype, out);
  c.abs_sum.assign(y.v.size(), 0);
  c.reduction_length = std::max<int64_t>(1, length);
  for (size_t g = 0; g < groups.size(); ++g) {
    y.v[g] = ReduceGroup(kKind, groups[g]);
    for (double v : groups[g]) c.abs_sum[g] += kKind == Kind::kSumSquare ? v * v : std::fabs(v);
    if (kKind == Kind::kMean && length) c.abs_sum[g] /= static_cast<double>(length);
    if (kKind == Kind::kMean && !IsFloat(x.dtype)) y.v[g] = std::trunc(y.v[g]);
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

template <bool kMax>
Status Arg(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = NormAxis(c.attrs->Int("axis", 0), x.dims.rank());
  const bool keep = c.attrs->Int("keepdims", 1), last = c.attrs->Int("select_last_index", 0);
  Dims kept = x.dims, out;
  kept[axis] = 1;
  for (int i = 0; i < x.dims.rank(); ++i)
    if (i != axis || keep) out.push_back(kept[i]);
  Tensor y = Tensor::Make(DType::kS64, out, -1);
  std::vector<double> best(y.v.size());
  std::vector<int64_t> index(x.dims.rank(), 0);
  for (int64_t i = 0; i < x.size(); ++i, Next(index, x.dims)) {
    const int64_t g = BroadcastOffset(index, kept);
    const double v = kMax ? x.v[i] : -x.v[i];
    const bool better =
        y.v[g] < 0 || v > best[g] || (last && v == best[g]) || (std::isnan(v) && !std::isnan(best[g]));
    if (better && !(y.v[g] >= 0 && std::isnan(best[g]))) {
      best[g] = v;
      y.v[g] = static_cast<double>(index[axis]);
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status CumSum(Call& c) {
  Tensor y = c.in(0);
  const int axis = NormAxis(static_cast<int64_t>(c.in(1).v[0]), y.dims.rank());
  const bool exclusive = c.attrs->Int("exclusive", 0), reverse = c.attrs->Int("reverse", 0);
  int64_t inner = 1;
  for (int i = axis + 1; i < y.dims.rank(); ++i) inner *= y.dims[i];
  const int64_t n = y.dims[axis], lines = n ? y.size() / n : 0;
  for (int64_t l = 0; l < lines; ++l) {
    const int64_t at = l / inner * n * inner + l % inner;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      double& v = y.v[at + (reverse ? n - 1 - i : i) * inner];
      const double x = v;
      v = exclusive ? sum : sum + x;
      sum += x;
    }
  }
  c.outputs.push_back(std::move(y));
  return OkStatus();
}

Status TopK(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = NormAxis(c.attrs->Int("axis", -1), x.dims.rank());
  const bool largest = c.attrs->Int("largest", 1);
  const int64_t k = static_cast<int64_t>(c.in(1).v[0]), n = x.dims[axis];
  Dims dims = x.dims;
  dims[axis] = k;
  Tensor values = Tensor::Make(x.dtype, dims), indices = Tensor::Make(DType::kS64, dims);
  int64_t inner = 1;
  for (int i = axis + 1; i < dims.rank(); ++i) inner *= dims[i];
  const int64_t lines = n ? x.size() / n : 0;
  for (int64_t l = 0; l < lines; ++l) {
    const int64_t at = l / inner * n * inner + l % inner, to = l / inner * k * inner + l % inner;
    std::vector<int64_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const double p = x.v[at + a * inner], q = x.v[at + b * inner];
      if (std::isnan(p) || std::isnan(q))
        return largest ? std::isnan(p) && !std::isnan(q) : std::isnan(q) && !std::isnan(p);
      return largest ? p > q : p < q;
    });
    for (int64_t i = 0; i < k; ++i) {
      values.v[to + i * inner] = x.v[at + order[i] * inner];
      indices.v[to + i * inner] = static_cast<double>(order[i]);
    }
  }
  c.outputs.push_back(std::move(values));
  c.outputs.push_back(std::move(indices));
  return OkStatus();
}

constexpr Entry kTable[] = {{"ReduceSum", Reduce<Kind::kSum>},
                            {"ReduceMean", Reduce<Kind::kMean>},
                            {"ReduceMax", Reduce<Kind::kMax>},
                            {"ReduceMin", Reduce<Kind::kMin>},
                            {"ReduceProd", Reduce<Kind::kProd>},
                            {"ReduceL1", Reduce<Kind::kL1>},
                            {"ReduceL2", Reduce<Kind::kL2>},
                            {"ReduceSumSquare", Reduce<Kind::kSumSquare>},
                            {"ReduceLogSum", Reduce<Kind::kLogSum>},
                            {"ReduceLogSumExp", Reduce<Kind::kLogSumExp>},
                            {"ArgMax", Arg<true>},
                            {"ArgMin", Arg<false>},
                            {"CumSum", CumSum},
                            {"TopK", TopK}};

}  // namespace

void ReducedDims(const Call& c, Dims* kept, Dims* out) {
  const Tensor& x = c.in(0);
  const int rank = x.dims.rank();
  std::vector<bool> reduced(rank, false);
  const std::vector<int64_t> axes = c.has(1) ? Ints(c.in(1)) : std::vector<int64_t>();
  for (int64_t a : axes) reduced[NormAxis(a, rank)] = true;
  if (axes.empty()) reduced.assign(rank, c.attrs->Int("noop_with_empty_axes", 0) == 0);
  const bool keep = c.attrs->Int("keepdims", 1);
  for (int i = 0; i < rank; ++i) {
    kept->push_back(reduced[i] ? 1 : x.dims[i]);
    if (!reduced[i]) out->push_back(x.dims[i]);
    if (reduced[i] && keep) out->push_back(1);
  }
}

std::span<const Entry> ReduceTable() { return kTable; }

}  // namespace opsnn::ref
