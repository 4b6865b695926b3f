#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(PReluGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term dy = f.In(0), x = f.In(1);
    if (f.attrs().Int("wrt_slope", 0) != 0) return Select(x > 0, 0, dy * x);
    return Select(x > 0, dy, dy * f.In(2));
  });
}
