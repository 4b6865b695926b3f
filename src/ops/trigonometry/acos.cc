#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Acos) { DefineUnary(def, StageOp::kAcos); }
