#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Round) { DefineUnary(def, StageOp::kRound); }
