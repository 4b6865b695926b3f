#include <string>

#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Divide) {
  auto formula = [](op::Formula& f) {
    const std::string rounding = f.attrs().String("rounding", "none");
    const op::Term a = f.In(0), b = f.In(1);
    if (rounding == "none") return a / b;
    // Of integers the division truncates, and the remainder has the sign of the divisor.
    if (!f.is_float()) return rounding == "trunc" ? a / b : (a - Mod(a, b)) / b;
    return rounding == "trunc" ? Trunc(a / b) : Floor(a / b);
  };
  // One formula in two types: only the plain quotient of integers is a float.
  op::OpDef plain;
  op::DefineFormula(plain, formula, op::FormulaType::kFloat);
  op::DefineFormula(def, formula);
  auto is_plain = [](const op::ProgramContext& c) {
    return op::AttrsOf(c.attrs).String("rounding", "none") == "none";
  };
  def.program = [is_plain, float_program = plain.program, program = def.program](
                    const op::ProgramContext& c) { return is_plain(c) ? float_program(c) : program(c); };
  def.out_dtype = [is_plain, float_dtype = plain.out_dtype](const op::ProgramContext& c) {
    return is_plain(c) ? float_dtype(c) : op::PromoteTypes(c.input_dtypes);
  };
}
