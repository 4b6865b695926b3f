#include <limits>

#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Atan2) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        constexpr double kPi = 3.14159265358979323846, kInf = std::numeric_limits<double>::infinity();
        const op::Term y = Abs(f.In(0)), x = Abs(f.In(1));
        // Inf over Inf counts as 1, 0 over 0 as 0.
        const op::Term both = And(Equal(y, kInf), Equal(x, kInf));
        const op::Term ratio = Select(both, 1, Select(Equal(y, 0), y, y / x));
        const op::Term angle = f.Unary(StageOp::kAtan, ratio);
        const op::Term left = Or(f.In(1) < 0, And(Equal(x, 0), 1.0 / f.In(1) < 0));
        const op::Term below = Or(f.In(0) < 0, And(Equal(y, 0), 1.0 / f.In(0) < 0));
        const op::Term half = Select(left, kPi - angle, angle);
        // NaN of either operand passes through: it is in angle, or in x where y is 0.
        return Select(IsNan(x), x, Select(below, -half, half));
      },
      op::FormulaType::kFloat);
}
