#include "ops/pooling/pool_op.h"

OPSNN_DEFINE_OPERATOR(GlobalMaxPool) { DefineGlobalPool(def, pool::Kind::kMax); }
