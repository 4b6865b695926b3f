// If, Loop and Scan: the graph engine puts what runs in their place (graph/control.h), so they have no
// kernel.
#ifndef OPSNN_OPS_CONTROL_CONTROL_OP_H_
#define OPSNN_OPS_CONTROL_CONTROL_OP_H_

#include "op/operator.h"

namespace opsnn::ops {

void DefineControl(op::OpDef& def);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_CONTROL_CONTROL_OP_H_
