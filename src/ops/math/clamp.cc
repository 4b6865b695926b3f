#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Clamp) {
  op::DefineFormula(def, [](op::Formula& f) {
    op::Term y = f.In(0);
    if (f.Has(1)) y = Max(y, f.In(1));
    return f.Has(2) ? Min(y, f.In(2)) : y;
  });
}
