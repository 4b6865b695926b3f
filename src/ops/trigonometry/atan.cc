#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Atan) { DefineUnary(def, StageOp::kAtan); }
