#include "ops/norm/axes_norm.h"

#include <algorithm>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {

Status InferLikeInput(op::InferContext& c) {
  op::TensorDesc y = Desc(c.inputs[0]->dtype, c.inputs[0]->dims);
  y.known_rank = c.inputs[0]->known_rank;
  return SetOutput(c, std::move(y));
}

Result<std::vector<int>> SortedAxes(const char* op, const std::vector<int64_t>& axes, int rank) {
  OPSNN_ASSIGN_OR_RETURN(std::vector<int> sorted, NormalizeAxes(op, "attribute axes", axes, rank));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

TensorView AxesLast(const TensorView& v, const std::vector<int>& axes) {
  TensorView out = v;
  out.dims = out.strides = {};
  for (const bool last : {false, true}) {
    for (int i = 0; i < v.rank(); ++i) {
      if ((std::find(axes.begin(), axes.end(), i) != axes.end()) != last) continue;
      out.dims.push_back(v.dims[i]);
      out.strides.push_back(v.strides[i]);
    }
  }
  return out;
}

Result<op::KernelPtr> PlanOverAxes(const op::PlanContext& c, const std::vector<int>& axes,
                                   const Program& program) {
  const TensorView x = AxesLast(c.inputs[0]->View(nullptr), axes);
  const TensorView y = AxesLast(c.outputs[0].View(nullptr), axes);
  return op::MakeProgramKernel(program, y.dims, {{0, x}}, {{0, y}}, static_cast<int>(axes.size()),
                               "row program");
}

}  // namespace opsnn::ops
