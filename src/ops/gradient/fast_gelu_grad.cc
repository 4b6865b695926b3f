#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(FastGeluGrad) {
  op::DefineFormula(def, [](op::Formula& f) { return f.In(0) * op::SiluSlope(f.In(1) * 1.702); });
  op::RequireSameShapes(def);
}
