#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Or) { DefineBinary(def, StageOp::kOr); }
