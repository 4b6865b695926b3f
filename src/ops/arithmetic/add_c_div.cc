#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(AddCDiv) {
  op::DefineFormula(def, [](op::Formula& f) { return f.In(0) + f.In(1) * f.Attr("value", 1) / f.In(2); });
}
