#include "ops/pooling/pool_op.h"

OPSNN_DEFINE_OPERATOR(GlobalAveragePool) { DefineGlobalPool(def, pool::Kind::kAverage); }
