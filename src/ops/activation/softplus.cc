#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Softplus) { DefineUnary(def, StageOp::kSoftplus); }
