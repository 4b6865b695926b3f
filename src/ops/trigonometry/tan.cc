#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Tan) { DefineUnary(def, StageOp::kTan); }
