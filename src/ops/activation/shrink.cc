#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Shrink) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double bound = f.Attr("lambd", 0.5), bias = f.Attr("bias", 0);
    const op::Term x = f.In(0);
    return Select(x > bound, x - bias, Select(x < -bound, x + bias, 0));
  });
}
