#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Selu) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        const double alpha = f.Attr("alpha", 1.67326319217681884765625);
        return f.Unary(StageOp::kElu, f.In(0), alpha) * f.Attr("gamma", 1.05070102214813232421875);
      },
      op::FormulaType::kInFloat);
}
