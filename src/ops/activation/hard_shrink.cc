#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(HardShrink) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double bound = f.Attr("lambd", 0.5);
    return Select(Or(f.In(0) > bound, f.In(0) < -bound), f.In(0), 0);
  });
}
