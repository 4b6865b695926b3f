#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Asin) { DefineUnary(def, StageOp::kAsin); }
