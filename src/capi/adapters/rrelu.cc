// aclnnRReluWithNoise: random slopes in training, their mean otherwise.
#include "capi/adapters/common.h"

namespace opsnn::capi {

Status Adapt_RRelu(const Call& call, OpCall& out) {
  const bool in_place = call.function().Find("out") < 0;
  const Operand x = Arg(call, "self"), noise = Arg(call, "noise"), y = in_place ? x : Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireDType(call, noise, x.desc.dtype, "self"));
  if (NumElements(noise.desc.dims) < NumElements(x.desc.dims)) {
    return BadValue(call, "noise", "of shape " + ToString(noise.desc.dims),
                    "at least as many elements as self, whose shape is " + ToString(x.desc.dims));
  }
  OPSNN_ASSIGN_OR_RETURN(const double lower, NumberOf(call, "lower"));
  OPSNN_ASSIGN_OR_RETURN(const double upper, NumberOf(call, "upper"));
  if (!(lower <= upper))
    return BadValue(call, "lower", StrFormat("%g", lower), StrFormat("at most upper, %g", upper));
  out.inputs = {x};
  out.outputs = {y};
  if (call.Int("training") == 0) {
    out.op = op::FindOperator("LeakyRelu");
    out.attrs.Set("alpha", (lower + upper) / 2);
    return OkStatus();
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, noise, x));
  out.attrs.Set("lower", lower);
  out.attrs.Set("upper", upper);
  out.attrs.Set("seed", call.Int("seed"));
  out.attrs.Set("offset", call.Int("offset"));
  out.outputs.push_back(noise);
  return OkStatus();
}

}  // namespace opsnn::capi
