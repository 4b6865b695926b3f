#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Exp) { DefineUnary(def, StageOp::kExp); }
