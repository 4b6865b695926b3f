// The pooling operators: two implementations, windows and whole images, over kernels/pool.
#ifndef OPSNN_OPS_POOLING_POOL_OP_H_
#define OPSNN_OPS_POOLING_POOL_OP_H_

#include "kernels/pool/pool.h"
#include "op/operator.h"

namespace opsnn::ops {

void DefinePool(op::OpDef& def, pool::Kind kind);
void DefineGlobalPool(op::OpDef& def, pool::Kind kind);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_POOLING_POOL_OP_H_
