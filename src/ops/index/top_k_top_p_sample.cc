#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/parallel.h"
#include "kernels/gather/sort_keys.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "TopKTopPSample";
constexpr int64_t kLargestK = 1024;

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 2, 2));
  c.outputs = {Desc(DType::kS64, {x.dims[0]}), Desc(DType::kF32, x.dims)};
  if (c.num_outputs < 2) c.outputs.resize(1);
  return OkStatus();
}

// Positions of a row, the largest value first; equal values in their order.
std::vector<int64_t> Falling(const float* x, int64_t n) {
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  kernels::SortKeys(x, DType::kF32, n, keys.data());
  std::vector<kernels::KeyedPosition> items(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) items[static_cast<size_t>(i)] = {~keys[static_cast<size_t>(i)], i};
  std::sort(items.begin(), items.end());
  std::vector<int64_t> order;
  for (const kernels::KeyedPosition& p : items) order.push_back(p.position);
  return order;
}

// exp(x - the largest) of what stays, in its order, and the sum.
std::vector<double> Weights(const float* x, const std::vector<int64_t>& order, double* sum) {
  double highest = -std::numeric_limits<double>::infinity();
  for (int64_t i : order) highest = std::max(highest, static_cast<double>(x[i]));
  std::vector<double> w;
  *sum = 0;
  for (int64_t i : order) {
    w.push_back(std::exp(x[i] - highest));
    *sum += w.back();
  }
  return w;
}

struct Sampling {
  int64_t rows = 0, n = 0;
  double eps = 0;
};

void Row(const Sampling& s, const float* x, int64_t k, float p, const float* q, int64_t* index, float* kept) {
  const bool by_k = k >= 1 && k <= std::min(kLargestK, s.n), by_p = p < 1;
  std::vector<int64_t> order;
  if (by_k || by_p) {
    order = Falling(x, s.n);
    if (by_k) order.resize(static_cast<size_t>(k));
  } else {
    for (int64_t i = 0; i < s.n; ++i) order.push_back(i);
  }
  double sum = 0;
  std::vector<double> w = Weights(x, order, &sum);
  if (by_p) {
    double before = 0;
    size_t stays = 0;
    while (stays < order.size() && (stays == 0 || before / sum <= static_cast<double>(p)))
      before += w[stays++];
    order.resize(stays);
    w = Weights(x, order, &sum);
  }
  size_t best = 0;
  double most = -1;
  for (size_t i = 0; i < order.size(); ++i) {
    const double v = w[i] / sum / (q != nullptr ? static_cast<double>(q[i]) + s.eps : 1);
    if (v > most) most = v, best = i;
  }
  *index = order[best];
  if (kept == nullptr) return;
  std::fill(kept, kept + s.n, -std::numeric_limits<float>::infinity());
  for (int64_t i : order) kept[i] = x[i];
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const Sampling s = {x.dims[0], x.dims[1], op::AttrsOf(c.attrs).Float("eps", 1e-8)};
  const auto run = [s, has_q = IsGiven(c.inputs, 3), keeps = c.outputs.size() > 1](const op::RunArgs& args) {
    ParallelFor(s.rows, [&](int64_t r, int) {
      Row(s, static_cast<const float*>(args.inputs[0]) + r * s.n,
          static_cast<const int64_t*>(args.inputs[1])[r], static_cast<const float*>(args.inputs[2])[r],
          has_q ? static_cast<const float*>(args.inputs[3]) + r * s.n : nullptr,
          static_cast<int64_t*>(args.outputs[0]) + r,
          keeps ? static_cast<float*>(args.outputs[1]) + r * s.n : nullptr);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("sort", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(TopKTopPSample) {
  def.infer = Infer;
  def.plan = Plan;
}
