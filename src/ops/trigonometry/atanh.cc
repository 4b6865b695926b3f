#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Atanh) { DefineUnary(def, StageOp::kAtanh); }
