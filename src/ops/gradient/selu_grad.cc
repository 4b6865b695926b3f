#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(SeluGrad) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        constexpr double kAlpha = 1.6732632423543772848, kGamma = 1.0507009873554804935;
        return f.In(0) * Select(f.In(1) > 0, kGamma, f.In(1) + kAlpha * kGamma);
      },
      op::FormulaType::kInFloat);
  op::RequireSameShapes(def);
}
