// Convolutions: Conv or ConvTranspose, by `transposed`; over channels one by one; over (time, batch,
// channel).
#include "capi/adapters/conv/conv_args.h"

namespace opsnn::capi {
namespace {

constexpr int64_t kCubeMathTypes = 3;

}  // namespace

Status Adapt_Convolution(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const bool transposed = call.Int("transposed") != 0;
  if (transposed && !call.Given("outputPadding")) {
    return Errorf(Code::kNull, "%s: outputPadding is null; it is required when transposed is true", api);
  }
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, kCubeMathTypes));
  OPSNN_RETURN_IF_ERROR(CheckConvFormats(call, {"input", "weight", "output"}));
  const Operand x = Arg(call, "input"), w = Arg(call, "weight"), bias = Arg(call, "bias");
  const int64_t groups = call.Int("groups");
  OPSNN_RETURN_IF_ERROR(CheckConvShapes(call, "input", x.desc.dims, w.desc.dims, groups, transposed));
  OPSNN_ASSIGN_OR_RETURN(
      op::Attrs attrs, ConvAttributes(call, static_cast<size_t>(x.desc.dims.rank() - 2), groups, transposed));
  OPSNN_RETURN_IF_ERROR(CheckBias(call, bias, transposed ? w.desc.dims[1] * groups : w.desc.dims[0]));
  Take(ConvCall(transposed ? "ConvTranspose" : "Conv", std::move(attrs), {x, w, bias}, Arg(call, "output")),
       &out);
  return OkStatus();
}

Status Adapt_ConvDepthwise2d(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, kCubeMathTypes));
  OPSNN_RETURN_IF_ERROR(CheckConvFormats(call, {"self", "weight", "out"}));
  const Operand x = Arg(call, "self"), w = Arg(call, "weight"), bias = Arg(call, "bias");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 4));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, w, 4, 4));
  if (w.desc.dims[1] != 1) {
    return BadValue(call, "weight", "of shape " + ToString(w.desc.dims), "a second dim of 1");
  }
  OPSNN_RETURN_IF_ERROR(CheckConvShapes(call, "self", x.desc.dims, w.desc.dims, x.desc.dims[1], false));
  const std::vector<int64_t>& kernel = call.Ints("kernelSize");
  if (kernel != std::vector<int64_t>{w.desc.dims[2], w.desc.dims[3]}) {
    return BadValue(call, "kernelSize", Listed(call, "kernelSize"),
                    "the last two dims of weight, of shape " + ToString(w.desc.dims));
  }
  if (call.Ints("padding").size() != 2) {
    return BadValue(call, "padding", Listed(call, "padding"), "two values");
  }
  OPSNN_ASSIGN_OR_RETURN(op::Attrs attrs, ConvAttributes(call, 2, x.desc.dims[1], false));
  OPSNN_RETURN_IF_ERROR(CheckBias(call, bias, w.desc.dims[0]));
  Take(ConvCall("Conv", std::move(attrs), {x, w, bias}, Arg(call, "out")), &out);
  return OkStatus();
}

// self (T, B, C), weight (K, C, O), out (T', B, O): a 1-D convolution of views.
Status Adapt_ConvTbc(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, kCubeMathTypes));
  if (!call.Given("bias")) return Errorf(Code::kNull, "%s: bias is null", call.function().api);
  const Operand x = Arg(call, "self"), w = Arg(call, "weight"), bias = Arg(call, "bias"),
                y = Arg(call, "output");
  for (const Operand* o : {&x, &w, &y}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 3, 3));
  for (const Operand* o : {&w, &bias, &y})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "self"));
  constexpr int64_t kMostPad = 255;
  const int64_t pad = call.Int("pad");
  if (pad < 0 || pad > kMostPad) return BadValue(call, "pad", std::to_string(pad), "0 to 255");
  if (w.desc.dims[1] != x.desc.dims[2] || w.desc.dims[0] < 1) {
    return BadValue(call, "weight", "of shape " + ToString(w.desc.dims),
                    "(K, C, O) with K above 0 and the C of self, of shape " + ToString(x.desc.dims));
  }
  OPSNN_RETURN_IF_ERROR(CheckBias(call, bias, w.desc.dims[2]));
  op::Attrs attrs;
  attrs.Set("pads", std::vector<int64_t>{pad, pad});
  Take(ConvCall("Conv", std::move(attrs), {Permuted(x, {1, 2, 0}), Permuted(w, {2, 1, 0}), bias},
                Permuted(y, {1, 2, 0})),
       &out);
  return OkStatus();
}

}  // namespace opsnn::capi
