#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Sigmoid) { DefineUnary(def, StageOp::kSigmoid); }
