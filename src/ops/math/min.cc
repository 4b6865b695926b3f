#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Min) { DefineVariadic(def, StageOp::kMin); }
