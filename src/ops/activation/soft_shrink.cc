#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(SoftShrink) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double bound = f.Attr("lambd", 0.5);
    const op::Term x = f.In(0);
    return Select(x > bound, x - bound, Select(x < -bound, x + bound, 0));
  });
  def.check = [](const op::InferContext& c) -> Status {
    const double bound = op::AttrsOf(c.attrs).Float("lambd", 0.5);
    if (bound >= 0) return OkStatus();
    return InvalidArgument("SoftShrink: attribute lambd is %g; allowed: 0 or more", bound);
  };
}
