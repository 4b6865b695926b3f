#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "DepthToSpace";

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
  if (dims[1] != kUnknownDim && dims[1] % (b * b) != 0) {
    return InvalidArgument("%s: input has %lld channels; allowed: multiples of blocksize squared, %lld", kOp,
                           static_cast<long long>(dims[1]), static_cast<long long>(b * b));
  }
  if (dims[1] != kUnknownDim) dims[1] /= b * b;
  for (const int i : {2, 3}) {
    if (dims[i] != kUnknownDim) dims[i] *= b;
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  const int64_t b = op::AttrsOf(c.attrs).Int("blocksize", 1), channels = to.dims[1];
  const bool channel_last = op::AttrsOf(c.attrs).String("mode", "DCR") == "DCR";
  const int64_t block = from.strides[1] * (channel_last ? channels : 1);  // source step of a block column
  const int64_t channel = from.strides[1] * (channel_last ? 1 : b * b);
  Move m;  // (n, channel, row, block row, column, block column)
  m.plan = kernels::CopyPlan(
      static_cast<int>(SizeOf(from.dtype)), {from.dims[0], channels, from.dims[2], b, from.dims[3], b},
      {from.strides[0], channel, from.strides[2], b * block, from.strides[3], block},
      {to.strides[0], to.strides[1], b * to.strides[2], to.strides[2], b * to.strides[3], to.strides[3]});
  return MakeMovesKernel({m});
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(DepthToSpace) {
  def.infer = Infer;
  def.plan = Plan;
}
