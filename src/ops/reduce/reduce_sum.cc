#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceSum) { DefineReduce(def, {}); }
