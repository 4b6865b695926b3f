#include "ops/gated/gated_terms.h"

OPSNN_DEFINE_OPERATOR(GatedUnitGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term a = f.In(1), b = f.In(2);
    const op::Term dy = f.Has(3) ? f.In(0) * f.In(3) : f.In(0);
    op::Term dx = dy;
    if (f.attrs().Int("wrt", 0) == 0) {
      op::Term up = ops::LinearPart(f, b);
      if (f.Attr("bias", 0) != 0) up = up + f.Attr("bias", 0);
      dx = dy * up * ops::GateSlope(f, a);
    } else {
      dx = dy * ops::ActivatedGate(f, a) * ops::LinearSlope(f, b);
    }
    return f.Has(4) ? Select(f.In(4), dx, 0) : dx;
  });
}
