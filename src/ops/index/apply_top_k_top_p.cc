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

constexpr const char* kOp = "ApplyTopKTopP";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 2, 2));
  return SetOutput(c, Desc(x.dtype, x.dims));
}

template <typename T>
void Row(int64_t n, const T* x, const T* p, const int64_t* k, T* y) {
  constexpr T kOut = -std::numeric_limits<T>::infinity();
  std::copy(x, x + n, y);
  if (n == 0) return;
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  kernels::SortKeys(x, DTypeOf<T>::value, n, keys.data());
  std::vector<kernels::KeyedPosition> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = {keys[static_cast<size_t>(i)], i};
  std::sort(order.begin(), order.end());
  size_t first = 0;  // of those that stay
  if (k != nullptr && *k > 0 && *k < n) {
    const uint64_t lowest = order[static_cast<size_t>(n - *k)].key;
    while (order[first].key < lowest) y[order[first++].position] = kOut;
  }
  if (p == nullptr) return;
  const double highest = x[order.back().position];
  double sum = 0;
  for (size_t i = first; i < order.size(); ++i) sum += std::exp(x[order[i].position] - highest);
  double below = 0;
  for (size_t i = first; i + 1 < order.size(); ++i) {
    below += std::exp(x[order[i].position] - highest) / sum;
    if (below <= 1 - static_cast<double>(*p)) y[order[i].position] = kOut;
  }
}

template <typename T>
void Rows(int64_t rows, int64_t n, bool has_p, bool has_k, const op::RunArgs& args) {
  ParallelFor(rows, [&](int64_t r, int) {
    Row<T>(n, static_cast<const T*>(args.inputs[0]) + r * n,
           has_p ? static_cast<const T*>(args.inputs[1]) + r : nullptr,
           has_k ? static_cast<const int64_t*>(args.inputs[2]) + r : nullptr,
           static_cast<T*>(args.outputs[0]) + r * n);
  });
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const auto run = [rows = x.dims[0], n = x.dims[1], has_p = IsGiven(c.inputs, 1),
                    has_k = IsGiven(c.inputs, 2), t = x.dtype](const op::RunArgs& args) {
    t == DType::kF64 ? Rows<double>(rows, n, has_p, has_k, args) : Rows<float>(rows, n, has_p, has_k, args);
    return OkStatus();
  };
  return Staged(c, MakeKernel("sort", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(ApplyTopKTopP) {
  def.infer = Infer;
  def.plan = Plan;
}
