#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Erf) { DefineUnary(def, StageOp::kErf); }
