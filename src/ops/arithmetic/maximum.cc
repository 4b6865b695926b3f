#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Maximum) {
  op::DefineFormula(def, [](op::Formula& f) { return Max(f.In(0), f.In(1)); });
}
