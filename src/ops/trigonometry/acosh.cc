#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Acosh) { DefineUnary(def, StageOp::kAcosh); }
