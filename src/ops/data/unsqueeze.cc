#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "Unsqueeze";

Status Infer(op::InferContext& c) {
  const op::TensorDesc& x = *c.inputs[0];
  const auto given = ConstantInts(c.inputs, 1);
  if (!x.known_rank || !given) return SetOutput(c, UnknownRank(x.dtype));
  const int64_t rank = x.dims.rank() + static_cast<int64_t>(given->size());
  OPSNN_RETURN_IF_ERROR(CheckMaxRank(kOp, rank));
  OPSNN_ASSIGN_OR_RETURN(const std::vector<int> axes,
                         NormalizeAxes(kOp, "axes", *given, static_cast<int>(rank)));
  Dims dims;
  for (int i = 0, from = 0; i < rank; ++i) {
    const bool inserted = std::find(axes.begin(), axes.end(), i) != axes.end();
    dims.push_back(inserted ? 1 : x.dims[from++]);
  }
  return SetOutput(c, Desc(x.dtype, dims));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(Unsqueeze) {
  def.infer = Infer;
  def.plan = PlanView;
  def.is_view = true;
}
