#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Mish) { DefineUnary(def, StageOp::kMish); }
