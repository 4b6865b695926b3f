#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(AddRelu) {
  op::DefineFormula(def, [](op::Formula& f) { return Relu(f.In(0) + f.In(1) * f.Attr("alpha", 1)); });
}
