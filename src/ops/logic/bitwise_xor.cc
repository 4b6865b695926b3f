#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(BitwiseXor) { DefineBinary(def, StageOp::kBitXor); }
