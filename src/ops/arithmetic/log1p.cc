#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(Log1p) {
  op::DefineFormula(def, [](op::Formula& f) { return op::Log1p(f.In(0)); });
}
