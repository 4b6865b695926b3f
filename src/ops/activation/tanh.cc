#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Tanh) { DefineUnary(def, StageOp::kTanh); }
