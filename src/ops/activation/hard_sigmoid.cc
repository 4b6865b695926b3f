#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(HardSigmoid) { DefineUnary(def, StageOp::kHardSigmoid, {"alpha", 0.2}, {"beta", 0.5}); }
