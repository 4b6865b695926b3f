#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Trunc) {
  op::DefineFormula(def, [](op::Formula& f) { return Trunc(f.In(0)); });
}
