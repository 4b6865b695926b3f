#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Sinh) { DefineUnary(def, StageOp::kSinh); }
