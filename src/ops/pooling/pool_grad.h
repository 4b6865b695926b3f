// Gradients of pools as operators of the C API.
#ifndef OPSNN_OPS_POOLING_POOL_GRAD_H_
#define OPSNN_OPS_POOLING_POOL_GRAD_H_

#include "op/operator.h"

namespace opsnn::ops {

void DefineMaxPoolGrad(op::OpDef& def);
void DefineAveragePoolGrad(op::OpDef& def);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_POOLING_POOL_GRAD_H_
