// Row programs along one axis that take several tensors of one shape: gradients and losses of softmax.
#ifndef OPSNN_OPS_GRADIENT_SOFTMAX_ROWS_H_
#define OPSNN_OPS_GRADIENT_SOFTMAX_ROWS_H_

#include <functional>

#include "op/operator.h"

namespace opsnn::ops {

// build adds the inputs, stages and outputs of the row program. All operands have the shape of the first;
// outputs that are per row have no axis any more. Reads the attribute axis, -1 by default. Infer gives one
// output of that shape, which the caller may replace.
void DefineSoftmaxRows(op::OpDef& def, std::function<void(ProgramBuilder&, ComputeType)> build);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_GRADIENT_SOFTMAX_ROWS_H_
