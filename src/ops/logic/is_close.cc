#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(IsClose) {
  op::DefineFormula(
      def,
      [](op::Formula& f) {
        const op::Term a = f.In(0), b = f.In(1);
        const op::Term bound = Abs(b) * f.Attr("rtol", 1e-5) + f.Attr("atol", 1e-8);
        op::Term close = Or(Equal(a, b), And(Not(IsInf(b)), And(Not(IsInf(a)), Abs(a - b) <= bound)));
        if (f.attrs().Int("equal_nan", 0) != 0) close = Or(close, And(IsNan(a), IsNan(b)));
        return close;
      },
      op::FormulaType::kInFloat);
  def.out_dtype = [](const op::ProgramContext&) { return DType::kBool; };
}
