#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(Exp2) {
  op::DefineFormula(def, [](op::Formula& f) { return op::Exp2(f.In(0)); });
}
