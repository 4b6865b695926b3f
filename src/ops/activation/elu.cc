#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Elu) { DefineUnary(def, StageOp::kElu, {"alpha", 1.0}); }
