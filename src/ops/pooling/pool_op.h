// The pooling operators: two implementations, windows and whole images, over kernels/pool.
#ifndef OPSNN_OPS_POOLING_POOL_OP_H_
#define OPSNN_OPS_POOLING_POOL_OP_H_

#include "kernels/pool/pool.h"
#include "op/operator.h"
#include "ops/pooling/pool_window.h"

namespace opsnn::ops {

void DefinePool(op::OpDef& def, pool::Kind kind);
void DefineLpPool(op::OpDef& def);
void DefineGlobalPool(op::OpDef& def, pool::Kind kind);

// MaxPool whose output Indices is asked for.
Result<op::KernelPtr> PlanMaxIndices(const op::PlanContext& c, const PoolWindow& w);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_POOLING_POOL_OP_H_
