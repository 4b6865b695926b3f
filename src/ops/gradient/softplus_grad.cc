#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(SoftplusGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term z = f.In(1) * f.Attr("beta", 1);
    return f.In(0) * Select(z > f.Attr("threshold", 20), 1, Sigmoid(z));
  });
  op::RequireSameShapes(def);
}
