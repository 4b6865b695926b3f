#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Cosh) { DefineUnary(def, StageOp::kCosh); }
