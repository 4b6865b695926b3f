#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Div) { DefineBinary(def, StageOp::kDiv); }
