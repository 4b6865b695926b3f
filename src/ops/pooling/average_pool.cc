#include "ops/pooling/pool_op.h"

OPSNN_DEFINE_OPERATOR(AveragePool) { DefinePool(def, pool::Kind::kAverage); }
