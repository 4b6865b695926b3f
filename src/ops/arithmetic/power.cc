#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Power) {
  op::DefineFormula(def, [](op::Formula& f) { return Pow(f.In(0), f.In(1)); });
}
