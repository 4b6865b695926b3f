#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(HardSigmoidGrad) {
  op::DefineFormula(def, [](op::Formula& f) { return Select(Abs(f.In(1)) < 3, f.In(0) / 6, 0); });
  op::RequireSameShapes(def);
}
