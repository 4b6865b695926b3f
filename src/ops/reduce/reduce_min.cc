#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceMin) { DefineReduce(def, {.combine = kernels::Combine::kMin}); }
