#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(SoftplusBeta) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double beta = f.Attr("beta", 1);
    const op::Term x = f.In(0);
    const op::Term z = x * beta;
    return Select(z > f.Attr("threshold", 20), x, Softplus(z) / beta);
  });
}
