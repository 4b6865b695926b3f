#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Sub) { DefineBinary(def, StageOp::kSub); }
