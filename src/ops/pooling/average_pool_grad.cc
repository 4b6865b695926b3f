#include "ops/pooling/pool_grad.h"

OPSNN_DEFINE_OPERATOR(AveragePoolGrad) { ops::DefineAveragePoolGrad(def); }
