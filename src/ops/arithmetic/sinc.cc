#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Sinc) {
  op::DefineFormula(def, [](op::Formula& f) {
    const op::Term z = f.In(0) * 3.14159265358979323846;
    return Select(Equal(z, 0), 1, f.Unary(StageOp::kSin, z) / z);
  });
}
