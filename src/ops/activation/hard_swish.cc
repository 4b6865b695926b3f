#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(HardSwish) { DefineUnary(def, StageOp::kHardSwish, {"", 1.0 / 6}, {"", 0.5}); }
