#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Mul) { DefineBinary(def, StageOp::kMul); }
