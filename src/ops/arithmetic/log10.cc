#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Log10) {
  op::DefineFormula(def, [](op::Formula& f) { return Log(f.In(0)) * 0.43429448190325182765; });
}
