#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceLogSumExp) { DefineReduce(def, {.shifted_exp = true}); }
