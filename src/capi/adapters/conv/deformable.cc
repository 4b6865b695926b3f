// Deformable convolution: places, and factors of what is found there, come as planes of one tensor.
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

Status CheckGroups(const Call& call, const char* param, int64_t channels) {
  const int64_t groups = call.Int(param);
  if (groups >= 1 && groups <= kMostInList && channels % groups == 0) return OkStatus();
  return BadValue(call, param, std::to_string(groups),
                  StrFormat("a divisor of the %lld channels of x", static_cast<long long>(channels)));
}

// Images as x is, a plain bias.
Status CheckFormats(const Call& call) {
  OPSNN_RETURN_IF_ERROR(CheckConvFormats(call, {"x", "weight", "offset", "out", "deformOutOptional"}));
  const auto format = [&call](const char* param) {
    return call.tensors()[call.TensorIndex(param)].object->format;
  };
  for (const char* param : {"weight", "offset", "out", "deformOutOptional"}) {
    if (call.TensorIndex(param) < 0 || format(param) == format("x")) continue;
    return InvalidArgument("%s: %s has format %d; allowed: %d, that of x", call.function().api, param,
                           format(param), format("x"));
  }
  if (call.TensorIndex("biasOptional") >= 0 && format("biasOptional") != ACL_FORMAT_ND) {
    return InvalidArgument("%s: biasOptional has format %d; allowed: ND", call.function().api,
                           format("biasOptional"));
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

Status CheckOperands(const Call& call) {
  const Operand x = Arg(call, "x"), w = Arg(call, "weight"), offset = Arg(call, "offset"),
                bias = Arg(call, "biasOptional"), y = Arg(call, "out"),
                columns = Arg(call, "deformOutOptional");
  for (const Operand* o : {&x, &w, &offset, &y, &columns}) {
    if (!o->given()) continue;
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "x"));
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 4, 4));
  }
  if (bias.given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, bias, x.desc.dtype, "x"));
  const Dims &xd = x.desc.dims, &wd = w.desc.dims;
  for (const char* param : {"groups", "deformableGroups"})
    OPSNN_RETURN_IF_ERROR(CheckGroups(call, param, xd[1]));
  OPSNN_RETURN_IF_ERROR(CheckConvShapes(call, "x", xd, wd, call.Int("groups"), false));
  OPSNN_RETURN_IF_ERROR(CheckKernel(call, wd));
  OPSNN_RETURN_IF_ERROR(CheckBias(call, bias, wd[0]));
  // Its rows and columns are those of the result, which the operator looks at.
  const int64_t values = call.Int("deformableGroups") * wd[2] * wd[3];
  const Dims& od = offset.desc.dims;
  return RequireShape(
      call, offset, Dims{xd[0], 3 * values, od[2], od[3]},
      "a shift to the right, one downwards and a factor for every place of every output pixel");
}

}  // namespace

Status Adapt_DeformableConv2d(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(CheckFormats(call));
  OPSNN_RETURN_IF_ERROR(CheckOperands(call));
  if (call.Int("modulated") == 0) return BadValue(call, "modulated", "false", "true");
  OpCall deform;
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> strides, OfRowsAndColumns(call, "stride"));
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> dilations, OfRowsAndColumns(call, "dilation"));
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> pads, PadsOfSides(call));
  deform.attrs.Set("strides", std::move(strides));
  deform.attrs.Set("dilations", std::move(dilations));
  deform.attrs.Set("pads", std::move(pads));
  deform.attrs.Set("group", call.Int("groups"));
  deform.attrs.Set("offset_group", call.Int("deformableGroups"));
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

}  // namespace opsnn::capi
