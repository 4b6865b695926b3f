#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "SpaceToDepth";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t b = op::AttrsOf(c.attrs).Int("blocksize", 1);
  if (b < 1 || b > INT16_MAX) {
    return InvalidArgument("%s: attribute blocksize is %lld; allowed: 1 to %d", kOp,
                           static_cast<long long>(b), INT16_MAX);
  }
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "input", x.dims, 4, 4));
  Dims dims = x.dims;
  if (dims[1] != kUnknownDim) dims[1] *= b * b;
  for (const int i : {2, 3}) {
    if (dims[i] == kUnknownDim) continue;
    if (dims[i] % b != 0) {
      return InvalidArgument(
          "%s: input has shape %s; allowed: height and width that are multiples of blocksize %lld", kOp,
          opsnn::ToString(x.dims).c_str(), static_cast<long long>(b));
    }
    dims[i] /= b;
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  const int64_t b = op::AttrsOf(c.attrs).Int("blocksize", 1), channels = from.dims[1];
  Move m;  // (n, block row, block column, channel, row, column)
  m.plan = kernels::CopyPlan(static_cast<int>(SizeOf(from.dtype)),
                             {from.dims[0], b, b, channels, to.dims[2], to.dims[3]},
                             {from.strides[0], from.strides[2], from.strides[3], from.strides[1],
                              b * from.strides[2], b * from.strides[3]},
                             {to.strides[0], b * channels * to.strides[1], channels * to.strides[1],
                              to.strides[1], to.strides[2], to.strides[3]});
  return MakeMovesKernel({m});
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(SpaceToDepth) {
  def.infer = Infer;
  def.plan = Plan;
}
