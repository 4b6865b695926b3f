#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Minimum) {
  op::DefineFormula(def, [](op::Formula& f) { return Min(f.In(0), f.In(1)); });
}
