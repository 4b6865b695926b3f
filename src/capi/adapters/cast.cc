// aclnnCast: the wanted type is an aclDataType, and out must have it.
#include "capi/plan.h"

namespace opsnn::capi {

Status Adapt_Cast(const Call& call, OpCall& out) {
  const int self = call.TensorIndex("self"), result = call.TensorIndex("out");
  const auto to = DTypeFromAcl(static_cast<int>(call.Int("dtype")));
  const op::TensorDesc out_desc = call.Desc(result);
  if (!to || *to != out_desc.dtype) {
    return InvalidArgument("%s: dtype is %s; allowed: %s, the dtype of out", call.function().api,
                           AclTypeName(static_cast<int>(call.Int("dtype"))).c_str(), Name(out_desc.dtype));
  }
  out.attrs.Set("to", int64_t{Info(*to).onnx});
  out.inputs = {{self, call.Desc(self)}};
  out.outputs = {{result, out_desc}};
  return OkStatus();
}

}  // namespace opsnn::capi
