#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(BitwiseAnd) { DefineBinary(def, StageOp::kBitAnd); }
