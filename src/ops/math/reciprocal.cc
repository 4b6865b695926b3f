#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Reciprocal) { DefineUnary(def, StageOp::kReciprocal); }
