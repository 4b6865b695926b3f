#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(FatReluMul) {
  op::DefineFormula(def, [](op::Formula& f) { return Select(f.In(0) < f.In(2), 0, f.In(0)) * f.In(1); });
}
