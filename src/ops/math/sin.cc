#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Sin) { DefineUnary(def, StageOp::kSin); }
