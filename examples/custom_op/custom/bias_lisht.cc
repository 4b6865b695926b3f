#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(BiasLisht) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term z = f.In(0) + f.In(1);
    return z * Tanh(z);
  });
}
