#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(TanhGrad) {
  op::DefineFormula(def, [](op::Formula& f) { return f.In(0) * (1 - f.In(1) * f.In(1)); });
}
