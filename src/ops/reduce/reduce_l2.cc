#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceL2) {
  DefineReduce(def, {.prologue = StageOp::kSquare, .finish = ReduceSpec::Finish::kSqrt});
}
