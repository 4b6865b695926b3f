#include "op/formula_math.h"

OPSNN_DEFINE_OPERATOR(GeluGrad) {
  op::DefineFormula(def, [](op::Formula& f) {
    const bool tanh = f.attrs().String("approximate", "none") == "tanh";
    return f.In(0) * (tanh ? op::GeluTanhSlope(f.In(1)) : op::GeluErfSlope(f.In(1)));
  });
}
