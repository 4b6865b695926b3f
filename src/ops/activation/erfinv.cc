#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(Erfinv) {
  op::DefineFormula(
      def, [](op::Formula& f) { return op::Erfinv(f.In(0)); }, op::FormulaType::kFloat);
}
