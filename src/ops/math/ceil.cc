#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Ceil) { DefineUnary(def, StageOp::kCeil); }
