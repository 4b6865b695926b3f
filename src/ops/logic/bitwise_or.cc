#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(BitwiseOr) { DefineBinary(def, StageOp::kBitOr); }
