#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(HardTanhGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term x = f.In(1);
    return Select(Or(x<f.Attr("min", -1), x> f.Attr("max", 1)), 0, f.In(0));
  });
  op::RequireSameShapes(def);
}
