#include "ops/data/space_blocks.h"

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

using ll = long long;

Status InferBlocks(const char* op, bool to_depth, op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const int64_t b = op::AttrsOf(c.attrs).Int("blocksize", 1);
  if (b < 1 || b > INT16_MAX) {
    return InvalidArgument("%s: attribute blocksize is %lld; allowed: 1 to %d", op, ll{b}, INT16_MAX);
  }
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  OPSNN_RETURN_IF_ERROR(CheckRank(op, "input", x.dims, 4, 4));
  Dims dims = x.dims;
  if (!to_depth && dims[1] != kUnknownDim && dims[1] % (b * b) != 0) {
    return InvalidArgument("%s: input has %lld channels; allowed: multiples of blocksize squared, %lld", op,
                           ll{dims[1]}, ll{b * b});
  }
  for (int i = 1; i < 4; ++i) {
    if (dims[i] == kUnknownDim) continue;
    const int64_t factor = i == 1 ? b * b : b;
    if ((i == 1) == to_depth) {
      dims[i] *= factor;
    } else if (dims[i] % factor == 0) {
      dims[i] /= factor;
    } else {
      return InvalidArgument(
          "%s: input has shape %s; allowed: height and width that are multiples of blocksize %lld", op,
          opsnn::ToString(x.dims).c_str(), ll{b});
    }
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

Result<op::KernelPtr> PlanBlocks(bool to_depth, const op::PlanContext& c) {
  const TensorView from = c.inputs[0]->View(nullptr), to = c.outputs[0].View(nullptr);
  const TensorView &wide = to_depth ? from : to, &deep = to_depth ? to : from;
  const int64_t b = op::AttrsOf(c.attrs).Int("blocksize", 1), channels = wide.dims[1];
  const bool channel_last = op::AttrsOf(c.attrs).String("mode", "DCR") == "DCR";
  const int64_t block = deep.strides[1] * (channel_last ? channels : 1);  // between columns of a block
  const int64_t channel = deep.strides[1] * (channel_last ? 1 : b * b);
  // (n, channel, row, row in the block, column, column in the block)
  const Dims dims = {wide.dims[0], channels, deep.dims[2], b, deep.dims[3], b};
  const Dims deep_strides = {deep.strides[0], channel, deep.strides[2], b * block, deep.strides[3], block};
  const Dims wide_strides = {wide.strides[0], wide.strides[1],     b * wide.strides[2],
                             wide.strides[2], b * wide.strides[3], wide.strides[3]};
  Move m;
  m.plan = kernels::CopyPlan(static_cast<int>(SizeOf(from.dtype)), dims,
                             to_depth ? wide_strides : deep_strides, to_depth ? deep_strides : wide_strides);
  return MakeMovesKernel({m});
}

}  // namespace

void DefineSpaceBlocks(op::OpDef& def, bool to_depth) {
  const op::OpDef* self = &def;  // lives as long as the registry
  def.infer = [self, to_depth](op::InferContext& c) { return InferBlocks(self->name.c_str(), to_depth, c); };
  def.plan = [to_depth](const op::PlanContext& c) { return PlanBlocks(to_depth, c); };
}

}  // namespace opsnn::ops
