#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Frac) {
  op::DefineFormula(def, [](op::Formula& f) { return f.In(0) - Trunc(f.In(0)); });
}
