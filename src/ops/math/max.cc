#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Max) { DefineVariadic(def, StageOp::kMax); }
