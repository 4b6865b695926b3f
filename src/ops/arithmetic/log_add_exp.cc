#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(LogAddExp) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term a = f.In(0), b = f.In(1);
    const op::Term larger = Max(a, b), gap = -Abs(a - b);
    return Select(IsInf(larger), larger, larger + op::Log1p(Exp(gap)));
  });
}
