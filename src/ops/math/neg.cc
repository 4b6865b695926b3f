#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Neg) { DefineUnary(def, StageOp::kNeg); }
