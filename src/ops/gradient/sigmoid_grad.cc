#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(SigmoidGrad) {
  op::DefineFormula(def, [](op::Formula& f) { return f.In(0) * f.In(1) * (1 - f.In(1)); });
}
