#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Equal) { DefineComparison(def, StageOp::kEqual); }
