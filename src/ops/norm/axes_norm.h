// Normalisations over any set of axes: the operands are seen with those axes last and run as row programs.
#ifndef OPSNN_OPS_NORM_AXES_NORM_H_
#define OPSNN_OPS_NORM_AXES_NORM_H_

#include <vector>

#include "op/operator.h"

namespace opsnn::ops {

// One output like input 0.
Status InferLikeInput(op::InferContext& c);
// Axes normalised and sorted; an error names the operator, the attribute and the range allowed.
Result<std::vector<int>> SortedAxes(const char* op, const std::vector<int64_t>& axes, int rank);
// `v` with the given axes moved behind the others, in their order.
TensorView AxesLast(const TensorView& v, const std::vector<int>& axes);
// A kernel that runs a program of one input and one output over the rows that `axes` span.
Result<op::KernelPtr> PlanOverAxes(const op::PlanContext& c, const std::vector<int>& axes,
                                   const Program& program);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_NORM_AXES_NORM_H_
