#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Cos) { DefineUnary(def, StageOp::kCos); }
