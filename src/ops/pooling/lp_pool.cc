#include "ops/pooling/pool_op.h"

OPSNN_DEFINE_OPERATOR(LpPool) { DefineLpPool(def); }
