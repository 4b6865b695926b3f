#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Log) { DefineUnary(def, StageOp::kLog); }
