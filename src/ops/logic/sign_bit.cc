#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(SignBit) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        if (!f.is_float()) return f.In(0) < 0;
        const op::Term x = f.In(0);
        return Or(x < 0, And(Equal(x, 0), 1.0 / x < 0));
      },
      op::FormulaType::kBool);
}
