#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(LogSigmoid) {
  op::DefineFormula(def, [](op::Formula& f) { return -Softplus(-f.In(0)); });
}
