#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(LogSigmoidGrad) {
  op::DefineFormula(def, [](op::Formula& f) { return f.In(0) * Sigmoid(-f.In(1)); });
  op::RequireSameShapes(def);
}
