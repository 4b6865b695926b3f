#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Not) { DefineUnary(def, StageOp::kNot); }
