#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Asinh) { DefineUnary(def, StageOp::kAsinh); }
