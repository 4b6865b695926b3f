#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceLogSum) { DefineReduce(def, {.finish = ReduceSpec::Finish::kLog}); }
