#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceMean) { DefineReduce(def, {.finish = ReduceSpec::Finish::kMean}); }
