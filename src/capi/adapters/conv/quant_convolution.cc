// aclnnQuantConvolution: 8-bit images and weights, sums exact in s32, then a scale per output channel and the
// bias, rounded once. A scale of 64 bits holds an f32 as devices read it (aclnnTransQuantParam).
#include "capi/adapters/conv/conv_args.h"
#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// What has no place here must not be given, or be the value that says so.
Status RequireReserved(const Call& call) {
  const char* api = call.function().api;
  if (call.Int("transposed") != 0) return BadValue(call, "transposed", "true", "false");
  if (call.Given("offset")) return BadValue(call, "offset", "given", "null");
  if (call.Int("offsetx") != 0) {
    return Errorf(Code::kNotImplemented, "%s: offsetx is %lld; supported: 0", api, ll{call.Int("offsetx")});
  }
  const auto* mode = static_cast<const char*>(call.arguments()[call.Index("roundMode")].raw.p);
  const std::string text = mode ? mode : "";
  if (text.empty() || text == "rint" || text == "round") return OkStatus();
  return BadValue(call, "roundMode", "\"" + text + "\"", "null, rint, round");
}

// The shape of the result; windows that do not fit are refused.
Result<Dims> OutputDims(const Call& call, const op::Attrs& attrs, const Dims& x, const Dims& w) {
  const std::vector<int64_t> strides = attrs.Ints("strides"), dilations = attrs.Ints("dilations"),
                             pads = attrs.Ints("pads");
  const size_t spatial = strides.size();
  Dims dims = {x[0], w[0]};
  for (size_t i = 0; i < spatial; ++i) {
    const int axis = 2 + static_cast<int>(i);
    int64_t extent, room;
    if (__builtin_mul_overflow(w[axis] - 1, dilations[i], &extent) ||
        __builtin_add_overflow(x[axis], pads[i] + pads[spatial + i], &room) || room - 1 - extent < 0) {
      return BadValue(call, "weight", "of shape " + ToString(w),
                      "kernels inside the padded input, of shape " + ToString(x));
    }
    dims.push_back((room - 1 - extent) / strides[i] + 1);
  }
  return dims;
}

// One value per channel, along dim 1 of the result.
Operand PerChannel(const Operand& o, int rank) {
  Dims dims = Dims::Filled(rank - 1, 1), strides = Dims::Filled(rank - 1, 0);
  dims[0] = o.desc.dims[0], strides[0] = StridesOf(o.desc)[0];
  return WithView(o, dims, strides);
}

}  // namespace

Status Adapt_QuantConvolution(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireReserved(call));
  OPSNN_RETURN_IF_ERROR(CheckConvFormats(call, {"input", "weight", "output"}));
  const Operand x = Arg(call, "input"), w = Arg(call, "weight"), bias = Arg(call, "bias"),
                y = Arg(call, "output");
  Operand scale = Arg(call, "scale");
  const int rank = x.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 5));
  const int64_t groups = call.Int("groups");
  OPSNN_RETURN_IF_ERROR(CheckConvShapes(call, "input", x.desc.dims, w.desc.dims, groups, false));
  OPSNN_ASSIGN_OR_RETURN(op::Attrs attrs, ConvAttributes(call, static_cast<size_t>(rank - 2), groups, false));
  OPSNN_RETURN_IF_ERROR(CheckBias(call, bias, w.desc.dims[0]));
  OPSNN_RETURN_IF_ERROR(CheckBias(call, scale, w.desc.dims[0]));
  OPSNN_ASSIGN_OR_RETURN(const Dims dims, OutputDims(call, attrs, x.desc.dims, w.desc.dims));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, dims, "the shape of the convolution"));
  if (scale.desc.dtype == DType::kS64) {
    const Operand values = out.Temp(DType::kF32, scale.desc.dims);
    out.first.push_back(CallOf("QuantParamValues", {scale}, {values}));
    scale = values;
  }
  const Operand sums = out.Temp(DType::kS32, dims);
  OpCall conv = CallOf("ConvInteger", {x, w}, {sums});
  conv.attrs = std::move(attrs);
  out.first.push_back(std::move(conv));
  std::vector<Operand> inputs = {sums, PerChannel(scale, rank)};
  if (bias.given()) inputs.push_back(PerChannel(bias, rank));
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     const Term z = f.In(0) * f.In(1);
                     return std::vector<Term>{bias.given() ? z + f.In(2) : z};
                   }),
       &out);
  return OkStatus();
}

}  // namespace opsnn::capi
