#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceMax) { DefineReduce(def, {.combine = kernels::Combine::kMax}); }
