#include "ops/reduce/reduce_common.h"

OPSNN_DEFINE_OPERATOR(ReduceProd) { DefineReduce(def, {.combine = kernels::Combine::kProd}); }
