#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(SquaredRelu) {
  op::DefineFormula(def, [](op::Formula& f) { return Square(Relu(f.In(0))); });
}
