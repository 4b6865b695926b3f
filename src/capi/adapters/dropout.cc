// Dropout: masks of one bit per element, kept in whole blocks of 128 bits, and what they let pass.
#include <limits>

#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

int64_t MaskBytes(int64_t elements) { return (elements + 127) / 128 * 16; }

Result<double> Probability(const Call& call, const char* param) {
  const double p = call.Double(param);
  if (p >= 0 && p <= 1) return p;
  return BadValue(call, param, StrFormat("%g", p), "0 to 1");
}

Status RequireMask(const Call& call, const Operand& mask, int64_t elements) {
  if (NumElements(mask.desc.dims) == MaskBytes(elements)) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: %lld elements, one bit each in blocks of 128",
                         call.function().api, NameOf(call, mask).c_str(), ToString(mask.desc.dims).c_str(),
                         static_cast<long long>(MaskBytes(elements)));
}

OpCall MaskCall(const Call& call, int64_t count, double drop, const Operand& y) {
  OpCall c = CallOf("DropoutMask", {}, {y});
  c.attrs.Set("count", count);
  c.attrs.Set("drop", drop);
  c.attrs.Set("seed", call.Int("seed"));
  c.attrs.Set("offset", call.Int("offset"));
  return c;
}

OpCall ApplyCall(const Operand& x, const Operand& mask, double scale, const Operand& y) {
  OpCall c = CallOf("ApplyBitMask", {x, mask}, {y});
  c.attrs.Set("scale", scale);
  c.converts_output = true;
  return c;
}

// The factor of what stays, so that the expected value stays; nothing does at p = 1.
double ScaleOf(double p) { return p == 1 ? 0 : 1 / (1 - p); }

}  // namespace

Status Adapt_DropoutGenMask(const Call& call, OpCall& out) {
  const Operand y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const double drop, Probability(call, "prob"));
  const std::vector<int64_t>& shape = call.Ints("shape");
  if (shape.size() > kMaxRank)
    return BadValue(call, "shape", StrFormat("a list of %zu", shape.size()), "at most 8 dims");
  Dims dims;
  for (int64_t d : shape) {
    if (d < 0) return BadValue(call, "shape", "a list with " + std::to_string(d), "0 and above");
    dims.push_back(d);
  }
  const auto count = CheckedNumElements(dims);
  if (!count || *count > std::numeric_limits<int64_t>::max() - 127)
    return BadValue(call, "shape", ToString(dims), "dims whose product 64 bits hold");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, y, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireMask(call, y, *count));
  Take(MaskCall(call, *count, drop, y), &out);
  return OkStatus();
}

// Where nothing or everything is dropped the mask says so.
Status Adapt_Dropout(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "input"), y = Arg(call, "out"), mask = Arg(call, "maskOut");
  OPSNN_ASSIGN_OR_RETURN(double p, Probability(call, "p"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  const int64_t count = NumElements(x.desc.dims);
  OPSNN_RETURN_IF_ERROR(RequireMask(call, mask, count));
  if (call.function().Find("optionalNoiseShape") >= 0) {
    if (call.Given("optionalNoiseShape")) return BadValue(call, "optionalNoiseShape", "given", "null");
    if (call.Int("offset") % 4 != 0)
      return BadValue(call, "offset", std::to_string(call.Int("offset")), "a multiple of 4");
  } else if (call.Int("train") == 0) {
    p = 0;
  }
  const Operand bits = out.Temp(DType::kU8, {MaskBytes(count)});
  out.first.push_back(MaskCall(call, count, p, bits));
  out.first.push_back(CallOf("Identity", {Reshaped(bits, mask.desc.dims)}, {mask}));
  Take(ApplyCall(x, bits, ScaleOf(p), y), &out);
  return OkStatus();
}

Status Adapt_DropoutDoMask(const Call& call, OpCall& out) {
  const Operand x = Arg(call, FirstOf(call, {"self", "gradOutput", "gradY"})), mask = Arg(call, "mask");
  const Operand y = Arg(call, FirstOf(call, {"out", "gradX"}));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_RETURN_IF_ERROR(RequireMask(call, mask, NumElements(x.desc.dims)));
  double scale;
  bool whole = false;  // everything passes, whatever the mask says
  if (call.function().Find("prob") >= 0) {
    OPSNN_ASSIGN_OR_RETURN(const double p, Probability(call, "prob"));
    scale = ScaleOf(p);
    whole = p == 0;
  } else {
    scale = call.Double("scale");
    if (!(scale >= 1 || scale == 0))
      return BadValue(call, "scale", StrFormat("%g", scale), "0, or 1 and above");
    whole = scale == 1 && call.function().Find("gradOutput") >= 0;
  }
  if (whole || scale == 0) {
    const Operand zero = BroadcastView(ConstantFloat(0, x.desc.dtype), x.desc.dims);
    Take(CallOf("Identity", {whole ? x : zero}, {WithDType(y, x.desc.dtype)}), &out);
    return OkStatus();
  }
  Take(ApplyCall(x, mask, scale, WithDType(y, x.desc.dtype)), &out);
  out.attrs.Set("product", int64_t{std::string_view(call.function().api) == "aclnnDropoutV3Grad"});
  return OkStatus();
}

}  // namespace opsnn::capi
