#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(ThresholdGrad) {
  op::DefineFormula(def, [](op::Formula& f) { return Select(f.In(1) > f.Attr("threshold", 0), f.In(0), 0); });
}
