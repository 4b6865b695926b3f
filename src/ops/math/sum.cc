#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Sum) { DefineVariadic(def, StageOp::kAdd); }
