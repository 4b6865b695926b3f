#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Square) {
  op::DefineFormula(def, [](op::Formula& f) { return Square(f.In(0)); });
}
