#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(HardSwishGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term x = f.In(1);
    const op::Term slope = x / 3 + 0.5;
    if (f.attrs().Int("closed", 0) != 0) return f.In(0) * Select(x <= -3, 0, Select(x >= 3, 1, slope));
    return f.In(0) * Select(x < -3, 0, Select(x > 3, 1, slope));
  });
  op::RequireSameShapes(def);
}
