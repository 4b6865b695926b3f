// aclnnAdd and aclnnInplaceAdd: out = self + alpha * other, where alpha's type must be one that casts to the
// promoted type.
#include "capi/plan.h"
#include "op/pointwise.h"

namespace opsnn::capi {

Status Adapt_Add(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const bool in_place = call.function().Find("selfRef") >= 0;
  const int self = call.TensorIndex(in_place ? "selfRef" : "self"), other = call.TensorIndex("other");
  const int result = in_place ? self : call.TensorIndex("out");
  const Scalar& alpha = call.ScalarOf("alpha");
  const DType promoted = op::PromoteTypes(call.Desc(self).dtype, call.Desc(other).dtype);
  const auto alpha_type = DTypeFromAcl(alpha.acl_dtype);
  if (!alpha_type || !CanCast(*alpha_type, promoted)) {
    return InvalidArgument(
        "%s: alpha has dtype %s; allowed: types that cast to %s, to which both tensors promote", api,
        AclTypeName(alpha.acl_dtype).c_str(), Name(promoted));
  }
  // Integers keep all their bits: a double holds 53.
  if (IsFloat(promoted)) {
    out.attrs.Set("alpha", *alpha.ToDouble());
  } else {
    out.attrs.Set("alpha", *alpha.ToInt());
  }
  out.inputs = {{self, call.Desc(self)}, {other, call.Desc(other)}};
  out.outputs = {{result, call.Desc(result)}};
  out.converts_output = true;
  return OkStatus();
}

}  // namespace opsnn::capi
