#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Lerp) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term a = f.In(0), b = f.In(1), w = f.In(2);
    // From the nearer end, so that weights 0 and 1 give the ends themselves.
    return Select(Abs(w) < 0.5, a + w * (b - a), b - (b - a) * (1.0 - w));
  });
}
