#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(FastGelu) {
  op::DefineFormula(def, [](op::Formula& f) {
    constexpr double kSlope = 1.702;
    return Silu(f.In(0) * kSlope) / kSlope;
  });
}
