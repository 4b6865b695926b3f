#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(SwishGrad) {
  op::DefineFormula(def,
                    [](op::Formula& f) { return f.In(0) * op::SiluSlope(f.In(1) * f.Attr("alpha", 1)); });
  op::RequireSameShapes(def);
}
