#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(ShrinkGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double bound = f.Attr("lambd", 0.5);
    return Select(Or(f.In(1) > bound, f.In(1) < -bound), f.In(0), 0);
  });
}
