#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Abs) { DefineUnary(def, StageOp::kAbs); }
