#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Rsqrt) {
  op::DefineFormula(def, [](op::Formula& f) { return f.Unary(StageOp::kRsqrt, f.In(0)); });
}
