// What LayerNormalization and RMSNormalization share: axis, the shapes of scale and bias, and the row kernel.
#ifndef OPSNN_OPS_NORM_ROW_NORM_H_
#define OPSNN_OPS_NORM_ROW_NORM_H_

#include "op/operator.h"

namespace opsnn::ops {

// Checks axis and that inputs 1.. broadcast to the normalised dims. Outputs: Y like X; further ones (row
// statistics) with the normalised dims as 1, in f32 (f64 for an f64 X).
Status InferRowNorm(const op::OpDef& def, op::InferContext& c);

// Whether every given operand computes in f32, as the row templates do.
bool AllF32(op::InputDescs inputs);

// Runs `program` over the trailing dims from the axis on; its inputs are the given operator inputs in order.
Result<op::KernelPtr> PlanRowNorm(const op::OpDef& def, const op::PlanContext& c, const Program& program);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_NORM_ROW_NORM_H_
