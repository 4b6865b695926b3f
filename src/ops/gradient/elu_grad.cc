#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(EluGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double alpha = f.Attr("alpha", 1), scale = f.Attr("scale", 1), slope = f.Attr("input_scale", 1);
    const op::Term dy = f.In(0), x = f.In(1);
    if (f.attrs().Int("is_result", 0) != 0) return dy * Select(x > 0, scale, (x + alpha * scale) * slope);
    return dy * Select(x > 0, scale, Exp(x * slope) * (slope * alpha * scale));
  });
  def.check = [self = &def](const op::InferContext& c) -> Status {
    const op::Attrs& a = op::AttrsOf(c.attrs);
    if (a.Int("is_result", 0) != 0 && a.Float("alpha", 1) < 0) {
      return InvalidArgument("EluGrad: attribute alpha is %g; allowed: 0 or more where is_result is true",
                             a.Float("alpha", 1));
    }
    return op::CheckSameShapes(*self, c);
  };
}
