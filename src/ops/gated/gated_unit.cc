#include "ops/gated/gated_terms.h"

OPSNN_DEFINE_OPERATOR(GatedUnit) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term gate = ops::ActivatedGate(f, f.In(0));
    const double bias = f.Attr("bias", 0);
    const op::Term up = ops::LinearPart(f, f.In(1));
    op::Term y = gate * (bias == 0 ? up : up + bias);
    if (f.Has(2)) y = y * f.In(2);
    return f.Has(3) ? Select(f.In(3), y, 0) : y;
  });
}
