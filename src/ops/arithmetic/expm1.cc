#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(Expm1) {
  op::DefineFormula(def, [](op::Formula& f) { return op::Expm1(f.In(0)); });
}
