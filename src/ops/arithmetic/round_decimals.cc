#include <cmath>

#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(RoundDecimals) {
  op::DefineFormula(def, [](op::Formula& f) {
    const auto decimals = static_cast<double>(f.attrs().Int("decimals", 0));
    if (!f.is_float()) return f.In(0);
    if (decimals == 0) return Round(f.In(0));
    const double power = std::pow(10.0, std::fabs(decimals));
    return decimals > 0 ? Round(f.In(0) * power) / power : Round(f.In(0) / power) * power;
  });
}
