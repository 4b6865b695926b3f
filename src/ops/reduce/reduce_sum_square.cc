#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceSumSquare) { DefineReduce(def, {.prologue = StageOp::kSquare}); }
