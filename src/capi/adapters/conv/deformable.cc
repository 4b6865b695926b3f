// Deformable convolution and its gradients: places, and factors of what is found there, come as planes of one
// tensor.
#include <algorithm>

#include "acl/acl_base.h"
#include "capi/adapters/conv/conv_args.h"

namespace opsnn::capi {
namespace {

constexpr int64_t kMostInList = int64_t{1} << 30;  // what windows take

// Lists of four: two ones and what belongs to rows and columns.
Result<std::vector<int64_t>> OfRowsAndColumns(const Call& call, const char* param) {
  const std::vector<int64_t>& v = call.Ints(param);
  const bool good = v.size() == 4 && v[0] == 1 && v[1] == 1 && v[2] >= 1 && v[3] >= 1 &&
                    v[2] <= kMostInList && v[3] <= kMostInList;
  if (good) return std::vector<int64_t>{v[2], v[3]};
  return BadValue(call, param, Listed(call, param), "[1, 1, rows, columns] with values from 1 to 2^30");
}

// Top, bottom, left and right, as the operator wants them: begins, then ends.
Result<std::vector<int64_t>> PadsOfSides(const Call& call) {
  const std::vector<int64_t>& v = call.Ints("padding");
  const bool good =
      v.size() == 4 && std::all_of(v.begin(), v.end(), [](int64_t p) { return p >= 0 && p <= kMostInList; });
  if (good) return std::vector<int64_t>{v[0], v[2], v[1], v[3]};
  return BadValue(call, "padding", Listed(call, "padding"),
                  "[top, bottom, left, right] with values from 0 to 2^30");
}

// Parameters of one function: the image first, then the other tensors of four dims, and the bias or its
// gradient.
struct Names {
  const char* x;
  std::vector<const char*> others;
  const char* bias;
};
const Names& ForwardNames() {
  static const Names names{"x", {"weight", "offset", "out", "deformOutOptional"}, "biasOptional"};
  return names;
}
const Names& BackwardNames() {
  static const Names names{
      "input",
      {"weight", "offset", "gradOutput", "offsetOut", "gradInput", "gradWeight", "gradOffset"},
      "gradBias"};
  return names;
}

Status CheckGroups(const Call& call, const Names& names, const char* param, int64_t channels) {
  const int64_t groups = call.Int(param);
  if (groups >= 1 && groups <= kMostInList && channels % groups == 0) return OkStatus();
  return BadValue(
      call, param, std::to_string(groups),
      StrFormat("a divisor of the %lld channels of %s", static_cast<long long>(channels), names.x));
}

// Images as x is, a plain bias.
Status CheckFormats(const Call& call, const Names& names) {
  const auto format = [&call](const char* param) {
    return call.tensors()[call.TensorIndex(param)].object->format;
  };
  OPSNN_RETURN_IF_ERROR(CheckConvFormats(call, {names.x}));
  for (const char* param : names.others) {
    OPSNN_RETURN_IF_ERROR(CheckConvFormats(call, {param}));
    if (call.TensorIndex(param) < 0 || format(param) == format(names.x)) continue;
    return InvalidArgument("%s: %s has format %d; allowed: %d, that of %s", call.function().api, param,
                           format(param), format(names.x), names.x);
  }
  if (call.TensorIndex(names.bias) >= 0 && format(names.bias) != ACL_FORMAT_ND) {
    return InvalidArgument("%s: %s has format %d; allowed: ND", call.function().api, names.bias,
                           format(names.bias));
  }
  return OkStatus();
}

Status CheckKernel(const Call& call, const Dims& w) {
  constexpr int64_t kMostTaps = 2048, kMostProducts = 65535;
  if (call.Ints("kernelSize") != std::vector<int64_t>{w[2], w[3]}) {
    return BadValue(call, "kernelSize", Listed(call, "kernelSize"),
                    "the last two dims of weight, of shape " + ToString(w));
  }
  if (w[2] > kMostTaps || w[3] > kMostTaps || w[2] * w[3] > kMostTaps ||
      (w[1] > kMostProducts || w[2] * w[3] * w[1] > kMostProducts)) {
    return BadValue(call, "kernelSize", Listed(call, "kernelSize"),
                    "up to 2048 positions, and up to 65535 times the channels of a group");
  }
  return OkStatus();
}

Status CheckOperands(const Call& call, const Names& names) {
  const Operand x = Arg(call, names.x), w = Arg(call, "weight"), offset = Arg(call, "offset"),
                bias = Arg(call, names.bias);
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 4));
  for (const char* param : names.others) {
    const Operand o = Arg(call, param);
    if (!o.given()) continue;
    OPSNN_RETURN_IF_ERROR(RequireDType(call, o, x.desc.dtype, names.x));
    OPSNN_RETURN_IF_ERROR(RequireRank(call, o, 4, 4));
  }
  if (bias.given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, bias, x.desc.dtype, names.x));
  const Dims &xd = x.desc.dims, &wd = w.desc.dims;
  for (const char* param : {"groups", "deformableGroups"})
    OPSNN_RETURN_IF_ERROR(CheckGroups(call, names, param, xd[1]));
  OPSNN_RETURN_IF_ERROR(CheckConvShapes(call, names.x, xd, wd, call.Int("groups"), false));
  OPSNN_RETURN_IF_ERROR(CheckKernel(call, wd));
  OPSNN_RETURN_IF_ERROR(CheckBias(call, bias, wd[0]));
  // Its rows and columns are those of the result, which the operator looks at.
  const int64_t values = call.Int("deformableGroups") * wd[2] * wd[3];
  const Dims& od = offset.desc.dims;
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, offset, Dims{xd[0], 3 * values, od[2], od[3]},
                   "a shift to the right, one downwards and a factor for every place of every output pixel"));
  return call.Int("modulated") != 0 ? OkStatus() : BadValue(call, "modulated", "false", "true");
}

// What both operators take.
Result<op::Attrs> Attributes(const Call& call) {
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> strides, OfRowsAndColumns(call, "stride"));
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> dilations, OfRowsAndColumns(call, "dilation"));
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> pads, PadsOfSides(call));
  op::Attrs attrs;
  attrs.Set("strides", std::move(strides));
  attrs.Set("dilations", std::move(dilations));
  attrs.Set("pads", std::move(pads));
  attrs.Set("group", call.Int("groups"));
  attrs.Set("offset_group", call.Int("deformableGroups"));
  return attrs;
}

// What was sampled is an image whose windows lie side by side: the gradient by the weights is that of a plain
// convolution of it.
OpCall WeightGradient(const Call& call) {
  op::Attrs attrs;
  const std::vector<int64_t> kernel = call.Ints("kernelSize");
  attrs.Set("kernel_shape", kernel);
  attrs.Set("strides", kernel);
  attrs.Set("group", call.Int("groups"));
  return ConvCall("ConvWeightGrad", std::move(attrs), {Arg(call, "offsetOut"), Arg(call, "gradOutput")},
                  Arg(call, "gradWeight"), false);
}

}  // namespace

Status Adapt_DeformableConv2d(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(CheckFormats(call, ForwardNames()));
  OPSNN_RETURN_IF_ERROR(CheckOperands(call, ForwardNames()));
  OpCall deform;
  OPSNN_ASSIGN_OR_RETURN(deform.attrs, Attributes(call));
  deform.attrs.Set("offset_planes", int64_t{1});
  deform.op = op::FindOperator("DeformConv");
  deform.inputs = {Arg(call, "x"), Arg(call, "weight"), Arg(call, "offset")};
  if (const Operand bias = Arg(call, "biasOptional"); bias.given()) deform.inputs.push_back(bias);
  deform.outputs = {Arg(call, "out")};
  if (const Operand columns = Arg(call, "deformOutOptional"); columns.given())
    deform.outputs.push_back(columns);
  Take(std::move(deform), &out);
  return OkStatus();
}

Status Adapt_DeformableConv2dBackward(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(CheckFormats(call, BackwardNames()));
  OPSNN_RETURN_IF_ERROR(CheckOperands(call, BackwardNames()));
  const Operand x = Arg(call, "input"), w = Arg(call, "weight"), offset = Arg(call, "offset"),
                dy = Arg(call, "gradOutput"), db = Arg(call, "gradBias");
  const Dims &xd = x.desc.dims, &wd = w.desc.dims, &yd = dy.desc.dims;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, Arg(call, "offsetOut"),
                                     {xd[0], xd[1], yd[2] * wd[2], yd[3] * wd[3]},
                                     "what was sampled for every output pixel"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, Arg(call, "gradInput"), xd, "that of input"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, Arg(call, "gradWeight"), wd, "that of weight"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, Arg(call, "gradOffset"), offset.desc.dims, "that of offset"));
  std::vector<OpCall> calls(1);
  OPSNN_ASSIGN_OR_RETURN(calls[0].attrs, Attributes(call));
  calls[0].op = op::FindOperator("DeformConvGrad");
  calls[0].inputs = {x, w, offset, dy};
  calls[0].outputs = {Arg(call, "gradInput"), Arg(call, "gradOffset")};
  calls.push_back(WeightGradient(call));
  Reduce("ReduceSum", dy, DType::kF32, db, {0, 2, 3}, false, &calls.emplace_back());
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
