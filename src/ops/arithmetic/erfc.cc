#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(Erfc) {
  op::DefineFormula(def, [](op::Formula& f) { return op::Erfc(f.In(0)); });
}
