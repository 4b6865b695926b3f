// aclnnLayerNorm: the normalised dims are given as a shape, the operator wants the first of them as an axis.
#include "capi/adapters/norm/norm_args.h"

namespace opsnn::capi {
namespace {

// weight, bias, mean and rstd: the parameter's dtype must be one of the two allowed here.
Status CheckDType(const Call& call, int tensor, DType allowed, bool or_f32) {
  if (tensor < 0) return OkStatus();
  const DType got = call.Desc(tensor).dtype;
  if (got == allowed || (or_f32 && got == DType::kF32)) return OkStatus();
  return InvalidArgument("%s: %s has dtype %s; allowed: %s, the dtype of input%s", call.function().api,
                         call.NameOf(tensor).c_str(), Name(got), Name(allowed), or_f32 ? ", or f32" : "");
}

Status CheckShape(const Call& call, int tensor, const Dims& shape) {
  if (tensor < 0 || call.Desc(tensor).dims == shape) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: %s, as normalizedShape says", call.function().api,
                         call.NameOf(tensor).c_str(), ToString(call.Desc(tensor).dims).c_str(),
                         ToString(shape).c_str());
}

}  // namespace

Status Adapt_LayerNorm(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const int x = call.TensorIndex("input"), y = call.TensorIndex("out");
  const int weight = call.TensorIndex("weightOptional"), bias = call.TensorIndex("biasOptional");
  const int mean = call.TensorIndex("meanOutOptional"), rstd = call.TensorIndex("rstdOutOptional");
  const op::TensorDesc desc = call.Desc(x);
  const std::vector<int64_t>& shape = call.Ints("normalizedShape");
  if (shape.empty() || static_cast<int>(shape.size()) > desc.dims.rank()) {
    return InvalidArgument("%s: normalizedShape has %zu values; allowed: 1 to %d, the rank of input", api,
                           shape.size(), desc.dims.rank());
  }
  const Dims normalized{std::span<const int64_t>(shape)};
  const int axis = desc.dims.rank() - normalized.rank();
  for (int i = 0; i < normalized.rank(); ++i) {
    if (normalized[i] == desc.dims[axis + i]) continue;
    return InvalidArgument("%s: normalizedShape is %s; allowed: the last dims of input, whose shape is %s",
                           api, ToString(normalized).c_str(), ToString(desc.dims).c_str());
  }
  for (int t : {weight, bias}) {
    OPSNN_RETURN_IF_ERROR(CheckShape(call, t, normalized));
    OPSNN_RETURN_IF_ERROR(CheckDType(call, t, desc.dtype, true));
  }
  if (weight >= 0 && bias >= 0 && call.Desc(weight).dtype != call.Desc(bias).dtype) {
    return InvalidArgument("%s: biasOptional has dtype %s; allowed: %s, the dtype of weightOptional", api,
                           Name(call.Desc(bias).dtype), Name(call.Desc(weight).dtype));
  }
  const double eps = call.Double("eps");
  if (!(eps >= 0)) {  // also NaN
    return InvalidArgument("%s: eps is %g; allowed: 0 or more", api, eps);
  }
  if (call.function().Find("implMode") >= 0 && (call.Int("implMode") < 0 || call.Int("implMode") > 2)) {
    return InvalidArgument("%s: implMode is %lld; allowed: 0, 1, 2", api,
                           static_cast<long long>(call.Int("implMode")));
  }
  OPSNN_RETURN_IF_ERROR(CheckDType(call, y, desc.dtype, false));
  for (int t : {mean, rstd}) OPSNN_RETURN_IF_ERROR(CheckDType(call, t, desc.dtype, true));
  const bool statistics = mean >= 0 || rstd >= 0;
  if (statistics && NumElements(normalized) == 0) {
    return TakeStatisticsOfNothing(Arg(call, "meanOutOptional"), Arg(call, "rstdOutOptional"), &out);
  }
  out.attrs.Set("axis", int64_t{axis});
  out.attrs.Set("epsilon", eps);
  auto add = [&](std::vector<Operand>* operands, int t) {
    operands->push_back(t < 0 ? Operand{} : Operand{t, call.Desc(t)});
  };
  for (int t : {x, weight, bias}) add(&out.inputs, t);
  for (int t : {y, mean, rstd}) add(&out.outputs, t);
  out.converts_output = true;  // mean and rstd of halves
  return OkStatus();
}

}  // namespace opsnn::capi
