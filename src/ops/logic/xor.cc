#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Xor) { DefineBinary(def, StageOp::kXor); }
