// aclnnMatmul: numpy rules, as the operator has them; cubeMathType only permits lower precision, which is
// never taken.
#include "capi/plan.h"

namespace opsnn::capi {

Status Adapt_Matmul(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const int self = call.TensorIndex("self"), mat2 = call.TensorIndex("mat2"),
            result = call.TensorIndex("out");
  const int64_t math = call.Int("cubeMathType");
  if (math < 0 || math > 4) {
    return InvalidArgument("%s: cubeMathType is %lld; allowed: 0 to 4", api, static_cast<long long>(math));
  }
  const op::TensorDesc a = call.Desc(self), b = call.Desc(mat2);
  for (int t : {self, mat2}) {
    const int rank = call.Desc(t).dims.rank();
    if (rank < 1 || rank > 6) {
      return InvalidArgument("%s: %s has %d dims; allowed: 1 to 6", api, call.NameOf(t).c_str(), rank);
    }
  }
  if (a.dtype != b.dtype) {
    return InvalidArgument("%s: mat2 has dtype %s; allowed: %s, the dtype of self", api, Name(b.dtype),
                           Name(a.dtype));
  }
  const int64_t k = a.dims.back();
  const int64_t rows = b.dims.rank() == 1 ? b.dims[0] : b.dims[b.dims.rank() - 2];
  if (k != rows) {
    return InvalidArgument(
        "%s: mat2 has shape %s; allowed: %lld rows, the last dim of self, whose shape is %s", api,
        ToString(b.dims).c_str(), static_cast<long long>(k), ToString(a.dims).c_str());
  }
  out.inputs = {{self, a}, {mat2, b}};
  out.outputs = {{result, call.Desc(result)}};
  out.converts_output = true;
  return OkStatus();
}

}  // namespace opsnn::capi
