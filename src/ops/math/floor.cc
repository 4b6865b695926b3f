#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Floor) { DefineUnary(def, StageOp::kFloor); }
