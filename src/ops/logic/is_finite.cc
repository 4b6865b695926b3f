#include <limits>

#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(IsFinite) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        return f.is_float() ? Abs(f.In(0)) < std::numeric_limits<double>::infinity()
                            : Equal(f.In(0), f.In(0));
      },
      op::FormulaType::kBool);
}
