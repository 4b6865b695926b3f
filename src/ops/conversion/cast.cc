#include "op/declaration.h"
#include "op/pointwise.h"

OPSNN_DEFINE_OPERATOR(Cast) {
  // The conversion is what storing the value does.
  op::DefineUnary(def, StageOp::kCopy);
  def.out_dtype = [](const op::ProgramContext& c) {
    return *DTypeFromOnnx(static_cast<int>(op::AttrsOf(c.attrs).Int("to", 0)));
  };
  def.check = [](const op::InferContext& c) -> Status {
    const int64_t to = op::AttrsOf(c.attrs).Int("to", 0);
    if (to >= 0 && to < 64 && DTypeFromOnnx(static_cast<int>(to)).has_value()) return OkStatus();
    std::string allowed;
    for (const DTypeInfo& t : kDTypeInfo) {
      allowed += StrFormat("%s%d (%s)", allowed.empty() ? "" : ", ", int{t.onnx}, t.name);
    }
    return InvalidArgument("Cast: attribute to is %lld; allowed: %s", static_cast<long long>(to),
                           allowed.c_str());
  };
}
