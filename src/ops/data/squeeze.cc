#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Squeeze";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const auto given = ConstantInts(c.inputs, 1);
  const bool all = !IsGiven(c.inputs, 1);
  if (!x.known_rank || (!all && !given) || (all && !IsKnown(x.dims)))
    return SetOutput(c, UnknownRank(x.dtype));
  std::vector<int> axes;
  if (given) {
    OPSNN_ASSIGN_OR_RETURN(axes, NormalizeAxes(kOp, "axes", *given, x.dims.rank()));
  }
  Dims dims;
  for (int i = 0; i < x.dims.rank(); ++i) {
    const int64_t d = x.dims[i];
    if (all ? d == 1 : std::find(axes.begin(), axes.end(), i) != axes.end()) {
      if (d == 1 || d == kUnknownDim) continue;
      return InvalidArgument("%s: axes %s names axis %d of data %s; allowed: dims of size 1", kOp,
                             ToString(*given).c_str(), i, opsnn::ToString(x.dims).c_str());
    }
    dims.push_back(d);
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Squeeze) {
  def.infer = Infer;
  def.plan = PlanView;
  def.is_view = true;
}
