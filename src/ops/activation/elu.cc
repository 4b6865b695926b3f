#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(Elu) {
  op::DefineFormula(def, [](op::Formula& f) {
    const double alpha = f.Attr("alpha", 1), scale = f.Attr("scale", 1), slope = f.Attr("input_scale", 1);
    const op::Term x = f.In(0);
    if (slope == 1 && scale == 1) return f.Unary(StageOp::kElu, x, alpha);
    return Select(x > 0, x, op::Expm1(x * slope) * alpha) * scale;
  });
}
