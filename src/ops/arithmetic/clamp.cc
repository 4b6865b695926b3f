#include "op/formula.h"

OPSNN_DEFINE_OPERATOR(Clamp) {
  op::DefineFormula(def, [](op::Formula& f) {
    op::Term y = f.In(0);
    if (f.Has(1)) y = Max(y, f.In(1));
    return f.Has(2) ? Min(y, f.In(2)) : y;
  });
  def.check = [](const op::InferContext& c) -> Status {
    auto given = [&c](size_t i) { return c.inputs.size() > i && c.inputs[i] != nullptr; };
    if (!given(1) && !given(2))
      return Errorf(Code::kNull, "Clamp: min and max are both null; one is required");
    if (op::AttrsOf(c.attrs).Int("ordered", 0) == 0 || !given(1) || !given(2)) return OkStatus();
    if (c.inputs[1]->constant == nullptr || c.inputs[2]->constant == nullptr) return OkStatus();
    const double lo = ToDoubles(*c.inputs[1]->constant)[0], hi = ToDoubles(*c.inputs[2]->constant)[0];
    if (!(lo > hi)) return OkStatus();
    return InvalidArgument("Clamp: input min is %g; allowed: at most max, which is %g", lo, hi);
  };
}
