#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(MaskedScale) {
  op::DefineFormula(def, [](op::Formula& f) { return f.In(0) * f.In(1) * f.Attr("scale", 1); });
}
