#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(LessOrEqual) { DefineComparison(def, StageOp::kLessEqual); }
