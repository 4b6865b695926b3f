#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Threshold) {
  op::DefineFormula(def, [](op::Formula& f) {
    return Select(f.In(0) > f.Attr("threshold", 0), f.In(0), f.Attr("value", 0));
  });
}
