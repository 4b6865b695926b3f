#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(And) { DefineBinary(def, StageOp::kAnd); }
