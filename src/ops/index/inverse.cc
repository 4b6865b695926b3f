#include <cmath>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Inverse";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 2, kMaxRank));
  if (x.dims.back() != x.dims[x.dims.rank() - 2]) {
    return InvalidArgument("%s: X has shape %s; allowed: square matrices in the last two dims", kOp,
                           opsnn::ToString(x.dims).c_str());
  }
  return SetOutput(c, Desc(x.dtype, x.dims));
}

// a becomes its inverse; row-major n x n.
void Invert(std::vector<double>& a, size_t n) {
  std::vector<size_t> swapped(n);
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t r = k + 1; r < n; ++r)
      if (std::abs(a[r * n + k]) > std::abs(a[pivot * n + k])) pivot = r;
    swapped[k] = pivot;
    if (pivot != k)
      for (size_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
    const double by = 1 / a[k * n + k];
    a[k * n + k] = 1;
    for (size_t j = 0; j < n; ++j) a[k * n + j] *= by;
    for (size_t r = 0; r < n; ++r) {
      if (r == k) continue;
      const double factor = a[r * n + k];
      a[r * n + k] = 0;
      for (size_t j = 0; j < n; ++j) a[r * n + j] -= factor * a[k * n + j];
    }
  }
  // Rows that were swapped are columns of the inverse.
  for (size_t k = n; k-- > 0;) {
    if (swapped[k] == k) continue;
    for (size_t r = 0; r < n; ++r) std::swap(a[r * n + k], a[r * n + swapped[k]]);
  }
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const auto n = static_cast<size_t>(x.dims.back());
  const int64_t count = NumElements(x.dims) == 0 ? 0 : NumElements(x.dims) / static_cast<int64_t>(n * n);
  const auto run = [n, count, t = x.dtype](const op::RunArgs& args) {
    ParallelFor(count, [&](int64_t m, int) {
      std::vector<double> a(n * n);
      const size_t first = static_cast<size_t>(m) * n * n * SizeOf(t);
      const char* from = static_cast<const char*>(args.inputs[0]) + first;
      char* to = static_cast<char*>(args.outputs[0]) + first;
      for (size_t i = 0; i < n * n; ++i) a[i] = ReadElement(from + i * SizeOf(t), t);
      Invert(a, n);
      for (size_t i = 0; i < n * n; ++i) WriteElement(to + i * SizeOf(t), t, a[i]);
    });
    return OkStatus();
  };
  return Staged(c, MakeKernel("elimination", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Inverse) {
  def.infer = Infer;
  def.plan = Plan;
}
