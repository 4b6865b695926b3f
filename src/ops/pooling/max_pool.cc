#include "ops/pooling/pool_op.h"

OPSNN_DEFINE_OPERATOR(MaxPool) { DefinePool(def, pool::Kind::kMax); }
