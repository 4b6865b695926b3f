#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceL1) { DefineReduce(def, {.prologue = StageOp::kAbs}); }
