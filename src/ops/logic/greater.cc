#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Greater) { DefineComparison(def, StageOp::kGreater); }
