#include <cmath>
#include <limits>

#include "op/formula.h"

namespace opsnn::ops {
namespace {

// An infinite value means the largest finite one of the dtype.
double Finite(const op::Formula& f, double value) {
  if (!std::isinf(value)) return value;
  return std::copysign(op::LargestFinite(f.dtype()), value);
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(NanToNum) {
  op::DefineFormula(def, [](op::Formula& f) {
    if (!f.is_float()) return f.In(0);
    const op::Term x = f.In(0);
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const op::Term finite = Select(Equal(x, kInf), ops::Finite(f, f.Attr("posinf", kInf)),
                                   Select(Equal(x, -kInf), ops::Finite(f, f.Attr("neginf", -kInf)), x));
    return Select(IsNan(x), f.Attr("nan", 0), finite);
  });
}
