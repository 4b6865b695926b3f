#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(BceLogitsTargetGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term x = f.In(1);
    const op::Term slope = f.Has(4) ? f.In(4) * Softplus(-x) - Softplus(x) : -x;
    op::Term dt = f.In(0) * (f.Has(3) ? f.In(3) * slope : slope);
    return f.attrs().String("reduction", "none") == "mean" ? dt / f.NumElements(2) : dt;
  });
}
