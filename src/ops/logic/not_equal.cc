#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(NotEqual) {
  op::DefineFormula(
      def, [](op::Formula& f) { return Not(Equal(f.In(0), f.In(1))); }, op::FormulaType::kBool);
}
