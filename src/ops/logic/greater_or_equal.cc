#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(GreaterOrEqual) { DefineComparison(def, StageOp::kGreaterEqual); }
