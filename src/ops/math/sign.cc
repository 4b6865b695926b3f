#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Sign) { DefineUnary(def, StageOp::kSign); }
