#include <cmath>
#include <utility>
#include <vector>

#include "base/parallel.h"
#include "op/pointwise.h"
#include "ops/data/data_op.h"
#include "tensor/element.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Det";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x.dims, 2, kMaxRank));
  const int rank = x.dims.rank();
  const int64_t rows = x.dims[rank - 2], cols = x.dims[rank - 1];
  if (rows != cols && rows != kUnknownDim && cols != kUnknownDim) {
    return InvalidArgument("%s: X has shape %s; allowed: square matrices in the last two dims", kOp,
                           opsnn::ToString(x.dims).c_str());
  }
  Dims dims = x.dims;
  dims.resize(rank - 2);
  return SetOutput(c, Desc(x.dtype, dims));
}

// Elimination with the largest pivot of the column; a is destroyed. NaN anywhere gives NaN, as a product.
double Determinant(double* a, int64_t n) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n && a[pivot * n + k] == a[pivot * n + k]; ++i) {
      if (!(std::fabs(a[i * n + k]) <= std::fabs(a[pivot * n + k]))) pivot = i;  // NaN before every number
    }
    if (pivot != k) {
      for (int64_t j = k; j < n; ++j) std::swap(a[k * n + j], a[pivot * n + j]);
      det = -det;
    }
    const double p = a[k * n + k];
    det *= p;
    for (int64_t i = k + 1; i < n; ++i) {
      const double f = p == 0 ? 0 : a[i * n + k] / p;  // times 0 the row still hands its NaN down
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
    }
  }
  return det;
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t n = x.dims.back(), count = NumElements(c.outputs[0].dims);
  const auto elem = static_cast<int64_t>(SizeOf(x.dtype));
  const size_t workspace = static_cast<size_t>(count * n * n) * sizeof(double);
  return Staged(c, MakeKernel(
                       "elimination in f64",
                       [=, dtype = x.dtype](const op::RunArgs& args) {
                         ParallelFor(count, [&](int64_t m, int) {
                           const char* from = static_cast<const char*>(args.inputs[0]) + m * n * n * elem;
                           double* a = static_cast<double*>(args.workspace) + m * n * n;
                           for (int64_t i = 0; i < n * n; ++i) a[i] = ReadElement(from + i * elem, dtype);
                           WriteElement(static_cast<char*>(args.outputs[0]) + m * elem, dtype,
                                        Determinant(a, n));
                         });
                         return OkStatus();
                       },
                       workspace));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Det) {
  def.infer = Infer;
  def.plan = Plan;
}
