#include "op/operator.h"
#include "op/pointwise.h"
#include "ops/matmul/product.h"

namespace opsnn::ops {
namespace {

using op::TensorDesc;

Status CheckMatrix(const char* what, const TensorDesc& d) {
  if (!d.known_rank || d.dims.rank() == 2) return OkStatus();
  return InvalidArgument("Gemm: %s has shape %s; allowed: rank 2", what, ToString(d.dims).c_str());
}

// C broadcasts to Y, never the other way round.
Status CheckAddend(const Dims& c, const Dims& y) {
  bool fits = c.rank() <= 2;
  for (int i = 0; fits && i < c.rank(); ++i) {
    const int64_t want = y[2 - c.rank() + i];
    fits = c[i] < 0 || c[i] == 1 || want < 0 || c[i] == want;
  }
  if (fits) return OkStatus();
  return InvalidArgument("Gemm: C has shape %s; allowed: a shape that broadcasts to %s", ToString(c).c_str(),
                         ToString(y).c_str());
}

Status InferGemm(op::InferContext& c) {
  const TensorDesc &a = *c.inputs[0], &b = *c.inputs[1];
  const TensorDesc* addend = c.inputs.size() > 2 ? c.inputs[2] : nullptr;
  OPSNN_RETURN_IF_ERROR(CheckMatrix("A", a));
  OPSNN_RETURN_IF_ERROR(CheckMatrix("B", b));
  TensorDesc y;
  y.dtype = a.dtype;
  y.dims = {kUnknownDim, kUnknownDim};
  if (a.known_rank && b.known_rank) {
    const op::Attrs& attrs = op::AttrsOf(c.attrs);
    OPSNN_ASSIGN_OR_RETURN(
        const ProductShape s,
        ResolveProduct("Gemm", a.dims, b.dims, attrs.Int("transA", 0) != 0, attrs.Int("transB", 0) != 0));
    y.dims = s.OutDims();
  }
  if (addend && addend->known_rank) OPSNN_RETURN_IF_ERROR(CheckAddend(addend->dims, y.dims));
  c.outputs.assign(1, y);
  return OkStatus();
}

// alpha * x + beta * c; factors of 1 are left out, and with beta = 0 C is not even read.
Post MakePost(const op::PlanContext& c) {
  const op::Attrs& attrs = op::AttrsOf(c.attrs);
  const double alpha = attrs.Float("alpha", 1), beta = attrs.Float("beta", 1);
  const bool adds = c.inputs.size() > 2 && c.inputs[2] && beta != 0;
  Post post;
  post.any = alpha != 1 || adds;
  if (!post.any) return post;
  const ComputeType t = ComputeTypeOf(c.inputs[0]->dtype);
  ProgramBuilder b;
  SlotId x = b.Input(t);
  SlotId addend = kNoSlot;
  if (adds) {
    addend = b.Input(t);
    post.inputs.push_back(2);
  }
  if (alpha != 1) x = b.Binary(StageOp::kMul, x, b.Const(alpha, t));
  if (adds) {
    if (beta != 1) addend = b.Binary(StageOp::kMul, addend, b.Const(beta, t));
    x = b.Binary(StageOp::kAdd, x, addend);
  }
  b.Output(x);
  post.program = std::move(b).Build();
  return post;
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Gemm) {
  def.infer = opsnn::ops::InferGemm;
  def.plan = [](const opsnn::op::PlanContext& c) {
    return opsnn::ops::PlanProduct("Gemm", c, opsnn::ops::MakePost(c));
  };
}
