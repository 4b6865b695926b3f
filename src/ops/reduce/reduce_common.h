// What the reduction operators share: axes, shapes, and the choice between row programs (the innermost dim is
// reduced) and the column accumulator (it is kept).
#ifndef OPSNN_OPS_REDUCE_REDUCE_COMMON_H_
#define OPSNN_OPS_REDUCE_REDUCE_COMMON_H_

#include "kernels/reduce/column_reduce.h"
#include "op/operator.h"

namespace opsnn::ops {

// y = finish(combine(prologue(x))).
struct ReduceSpec {
  StageOp prologue = StageOp::kCopy;  // kCopy: none
  kernels::Combine combine = kernels::Combine::kSum;
  enum class Finish : uint8_t { kNone, kMean, kSqrt, kLog } finish = Finish::kNone;
  bool shifted_exp = false;  // LogSumExp: subtract the row's maximum, exponentiate, add it back
};

// Inputs "data" and "axes" (optional; must be known when the call is planned), attributes keepdims and
// noop_with_empty_axes.
void DefineReduce(op::OpDef& def, const ReduceSpec& spec);

}  // namespace opsnn::ops

#endif  // OPSNN_OPS_REDUCE_REDUCE_COMMON_H_
