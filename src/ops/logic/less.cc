#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Less) { DefineComparison(def, StageOp::kLess); }
