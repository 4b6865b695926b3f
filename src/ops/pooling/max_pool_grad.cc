#include "ops/pooling/pool_grad.h"

OPSNN_DEFINE_OPERATOR(MaxPoolGrad) { ops::DefineMaxPoolGrad(def); }
