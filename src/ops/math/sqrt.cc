#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Sqrt) { DefineUnary(def, StageOp::kSqrt); }
