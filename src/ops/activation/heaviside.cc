#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Heaviside) {
  op::DefineFormula(def, [](op::Formula& f) { return Select(Equal(f.In(0), 0), f.In(1), f.In(0) > 0); });
}
