#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(Celu) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double alpha = f.Attr("alpha", 1);
    const op::Term x = f.In(0);
    return Select(x > 0, x, op::Expm1(x / alpha) * alpha);
  });
  def.check = [](const op::InferContext& c) -> Status {
    if (op::AttrsOf(c.attrs).Float("alpha", 1) != 0) return OkStatus();
    return InvalidArgument("Celu: attribute alpha is 0; allowed: any other number");
  };
}
