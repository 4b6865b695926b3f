#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(XLog1pY) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        const op::Term x = f.In(0), y = f.In(1);
        return Select(And(Equal(x, 0), Not(IsNan(y))), 0, x * op::Log1p(y));
      },
      op::FormulaType::kFloat);
}
