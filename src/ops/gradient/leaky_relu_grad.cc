#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(LeakyReluGrad) {
  op::DefineFormula(
      def, [](op::Formula& f) { return Select(f.In(1) > 0, f.In(0), f.In(0) * f.Attr("alpha", 0.01)); });
  def.check = [](const op::InferContext& c) -> Status {
    const op::Attrs& a = op::AttrsOf(c.attrs);
    if (a.Int("is_result", 0) == 0 || a.Float("alpha", 0.01) >= 0) return OkStatus();
    return InvalidArgument("LeakyReluGrad: attribute alpha is %g; allowed: 0 or more where is_result is true",
                           a.Float("alpha", 0.01));
  };
}
