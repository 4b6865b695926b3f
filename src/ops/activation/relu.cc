#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Relu) { DefineUnary(def, StageOp::kRelu); }
