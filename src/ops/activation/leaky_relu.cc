#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(LeakyRelu) { DefineUnary(def, StageOp::kLeakyRelu, {"alpha", 0.01}); }
