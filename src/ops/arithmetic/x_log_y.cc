#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(XLogY) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        const op::Term x = f.In(0), y = f.In(1);
        return Select(And(Equal(x, 0), Not(IsNan(y))), 0, x * Log(y));
      },
      op::FormulaType::kFloat);
}
