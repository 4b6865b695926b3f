#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  if (!x.known_rank) return SetOutput(c, Desc(x.dtype, {kUnknownDim, kUnknownDim}));
  const int rank = x.dims.rank();
  int64_t axis = op::AttrsOf(c.attrs).Int("axis", 1);
  if (axis < -rank || axis > rank) {
    return InvalidArgument("Flatten: attribute axis is %lld; allowed: [%d, %d]", static_cast<long long>(axis),
                           -rank, rank);
  }
  if (axis < 0) axis += rank;
  Dims dims = {1, 1};
  for (int i = 0; i < rank; ++i) {
    int64_t& d = dims[i < axis ? 0 : 1];
    d = d == kUnknownDim || x.dims[i] == kUnknownDim ? kUnknownDim : d * x.dims[i];
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Flatten) {
  def.infer = Infer;
  def.plan = PlanView;
  def.is_view = true;
}
