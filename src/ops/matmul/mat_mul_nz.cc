#include "kernels/gemm/gemm.h"
#include "op/operator.h"
#include "op/pointwise.h"
#include "ops/matmul/product.h"

namespace opsnn::ops {
namespace {

using ll = long long;
using op::TensorDesc;

constexpr int64_t kFractalRows = 16;

int64_t CeilDivOrUnknown(int64_t x, int64_t by) { return x < 0 ? kUnknownDim : (x + by - 1) / by; }

// B as the matrices that its strips hold, and whether they are transposed.
Result<StripWeight> ResolveStrips(const TensorDesc& a, const TensorDesc& b, const op::Attrs& attrs) {
  StripWeight w;
  w.transposed = attrs.Int("transB", 0) != 0;
  const int64_t n = attrs.Int("columns", 0), k = a.dims.back();
  if (n < 0) return InvalidArgument("MatMulNz: columns is %lld; allowed: 0 and up", ll{n});
  const int64_t strip = gemm::NzStrip(b.dtype), rows = w.transposed ? n : k, cols = w.transposed ? k : n;
  int64_t padded = CeilDivOrUnknown(rows, kFractalRows);
  if (padded >= 0) padded *= kFractalRows;
  const int64_t want[] = {CeilDivOrUnknown(cols, strip), padded, strip};
  const int rank = b.dims.rank();
  bool fits = rank >= 3;
  for (int i = 0; fits && i < 3; ++i) {
    const int64_t got = b.dims[rank - 3 + i];
    fits = got < 0 || want[i] < 0 || got == want[i];
  }
  if (!fits) {
    return InvalidArgument(
        "MatMulNz: B has shape %s; allowed: [.., %lld, %lld, %lld], strips of %s that hold %s%lld x %lld",
        ToString(b.dims).c_str(), ll{want[0]}, ll{want[1]}, ll{want[2]}, Name(b.dtype),
        w.transposed ? "transposed " : "", ll{k}, ll{n});
  }
  w.matrix.dtype = b.dtype;
  w.matrix.dims = b.dims;
  w.matrix.dims.erase(rank - 1);
  w.matrix.dims[rank - 3] = k, w.matrix.dims[rank - 2] = n;
  return w;
}

Status CheckRank(const TensorDesc& a) {
  if (a.dims.rank() >= 2) return OkStatus();
  return InvalidArgument("MatMulNz: A has shape %s; allowed: rank 2 and up", ToString(a.dims).c_str());
}

Status InferMatMulNz(op::InferContext& c) {
  const TensorDesc &a = *c.inputs[0], &b = *c.inputs[1];
  TensorDesc y;
  y.dtype = a.dtype;
  y.known_rank = a.known_rank && b.known_rank;
  if (y.known_rank) {
    OPSNN_RETURN_IF_ERROR(CheckRank(a));
    OPSNN_ASSIGN_OR_RETURN(const StripWeight w, ResolveStrips(a, b, op::AttrsOf(c.attrs)));
    OPSNN_ASSIGN_OR_RETURN(const ProductShape s,
                           ResolveProduct("MatMulNz", a.dims, w.matrix.dims, false, false));
    y.dims = s.OutDims();
  }
  c.outputs.assign(1, y);
  return OkStatus();
}

Result<op::KernelPtr> PlanMatMulNz(const op::PlanContext& c) {
  const TensorDesc& b = *c.inputs[1];
  OPSNN_ASSIGN_OR_RETURN(StripWeight w, ResolveStrips(*c.inputs[0], b, op::AttrsOf(c.attrs)));
  if (!b.IsContiguous()) return InvalidArgument("MatMulNz: B is strided; allowed: contiguous");
  // Of the strides only those of the batch count: strips have none of rows and columns.
  const Dims stored = ContiguousStrides(b.dims);
  for (int i = 0; i < w.matrix.dims.rank(); ++i) w.matrix.strides.push_back(stored[i]);
  return PlanProduct("MatMulNz", c, {}, &w);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MatMulNz) {
  def.infer = opsnn::ops::InferMatMulNz;
  def.plan = opsnn::ops::PlanMatMulNz;
}
