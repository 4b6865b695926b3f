#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Log2) {
  op::DefineFormula(def, [](op::Formula& f) { return Log(f.In(0)) * 1.44269504088896340736; });
}
