#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(MishGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term x = op::Bounded(f.In(1));
    const op::Term t = Tanh(Softplus(x));
    return f.In(0) * (t + x * (1 - t * t) * Sigmoid(x));
  });
}
