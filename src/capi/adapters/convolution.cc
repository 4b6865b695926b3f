// aclnnConvolution: Conv or ConvTranspose, by `transposed`.
#include "acl/acl_base.h"
#include "capi/plan.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// What the operator's windows take.
constexpr int64_t kMostInList = int64_t{1} << 30;

// A list with one value per spatial dim, each at least `lowest`.
Status CheckList(const Call& call, const char* param, size_t count, int64_t lowest) {
  const std::vector<int64_t>& v = call.Ints(param);
  if (v.size() != count) {
    return InvalidArgument("%s: %s has %zu values; allowed: %zu, the rank of input minus 2",
                           call.function().api, param, v.size(), count);
  }
  for (int64_t k : v) {
    if (k < lowest || k > kMostInList) {
      return InvalidArgument("%s: %s has the value %lld; allowed: %lld to %lld", call.function().api, param,
                             ll{k}, ll{lowest}, ll{kMostInList});
    }
  }
  return OkStatus();
}

// Pads as the operator wants them: all begins, then all ends. The list gives one value per dim for both
// sides, or both sides of each dim in turn.
Result<std::vector<int64_t>> Pads(const Call& call, size_t spatial, bool transposed) {
  const std::vector<int64_t>& v = call.Ints("padding");
  for (int64_t p : v) {
    if (p < 0 || p > kMostInList) {
      return InvalidArgument("%s: padding has the value %lld; allowed: 0 to %lld", call.function().api, ll{p},
                             ll{kMostInList});
    }
  }
  std::vector<int64_t> begins, ends;
  if (v.size() == spatial) {
    begins = ends = v;
  } else if (v.size() == 2 * spatial && !(transposed && spatial == 1)) {
    for (size_t i = 0; i < spatial; ++i) {
      begins.push_back(v[2 * i]);
      ends.push_back(v[2 * i + 1]);
    }
  } else {
    return InvalidArgument("%s: padding has %zu values; allowed: %zu%s", call.function().api, v.size(),
                           spatial,
                           transposed && spatial == 1 ? "" : StrFormat(" or %zu", 2 * spatial).c_str());
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  return begins;
}

Status CheckFormats(const Call& call) {
  for (const char* param : {"input", "weight", "output"}) {
    const int format = call.tensors()[call.TensorIndex(param)].object->format;
    if (format == ACL_FORMAT_NHWC || format == ACL_FORMAT_NDHWC || format == ACL_FORMAT_HWCN) {
      return InvalidArgument("%s: %s has format %d; allowed: NCL, NCHW, NCDHW, ND", call.function().api,
                             param, format);
    }
  }
  return OkStatus();
}

// Everything about ranks, groups and channels, under the names that the caller knows.
Status CheckShapes(const Call& call, const Dims& x, const Dims& w, bool transposed) {
  const char* api = call.function().api;
  if (x.rank() < 3 || x.rank() > 5) {
    return InvalidArgument("%s: input has %d dims; allowed: 3 (N, C, L), 4 (N, C, H, W) or 5 (N, C, D, H, W)",
                           api, x.rank());
  }
  if (w.rank() != x.rank()) {
    return InvalidArgument("%s: weight has %d dims; allowed: %d, as input has", api, w.rank(), x.rank());
  }
  const int64_t groups = call.Int("groups");
  if (groups < 1 || groups > 65535) {
    return InvalidArgument("%s: groups is %lld; allowed: 1 to 65535", api, ll{groups});
  }
  const int64_t channels = transposed ? w[0] : w[1] * groups;
  if (channels != x[1] || x[1] % groups != 0 || (!transposed && w[0] % groups != 0)) {
    return InvalidArgument(
        "%s: groups is %lld with input %s and weight %s; allowed: groups that divide the channels, "
        "weight made for %lld input channels",
        api, ll{groups}, ToString(x).c_str(), ToString(w).c_str(), ll{x[1]});
  }
  for (int i = 2; i < w.rank(); ++i) {
    if (w[i] < 1)
      return InvalidArgument("%s: weight has shape %s; allowed: spatial sizes of 1 or more", api,
                             ToString(w).c_str());
  }
  return OkStatus();
}

Status CheckOutputPadding(const Call& call, size_t spatial) {
  const char* api = call.function().api;
  OPSNN_RETURN_IF_ERROR(CheckList(call, "outputPadding", spatial, 0));
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t limit = std::max(call.Ints("stride")[i], call.Ints("dilation")[i]);
    const int64_t got = call.Ints("outputPadding")[i];
    if (got >= limit) {
      return InvalidArgument(
          "%s: outputPadding[%zu] is %lld; allowed: below %lld, the larger of stride and dilation", api, i,
          ll{got}, ll{limit});
    }
  }
  return OkStatus();
}

}  // namespace

Status Adapt_Convolution(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const int x = call.TensorIndex("input"), w = call.TensorIndex("weight"), b = call.TensorIndex("bias");
  const int y = call.TensorIndex("output");
  const bool transposed = call.Int("transposed") != 0;
  if (transposed && !call.Given("outputPadding")) {
    return Errorf(Code::kNull, "%s: outputPadding is null; it is required when transposed is true", api);
  }
  const int64_t math = call.Int("cubeMathType");
  if (math < 0 || math > 3)
    return InvalidArgument("%s: cubeMathType is %lld; allowed: 0 to 3", api, ll{math});
  OPSNN_RETURN_IF_ERROR(CheckFormats(call));
  const op::TensorDesc x_desc = call.Desc(x), w_desc = call.Desc(w);
  OPSNN_RETURN_IF_ERROR(CheckShapes(call, x_desc.dims, w_desc.dims, transposed));
  const auto spatial = static_cast<size_t>(x_desc.dims.rank() - 2);
  OPSNN_RETURN_IF_ERROR(CheckList(call, "stride", spatial, 1));
  OPSNN_RETURN_IF_ERROR(CheckList(call, "dilation", spatial, 1));
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> pads, Pads(call, spatial, transposed));
  if (transposed) OPSNN_RETURN_IF_ERROR(CheckOutputPadding(call, spatial));

  const int64_t channels = transposed ? w_desc.dims[1] * call.Int("groups") : w_desc.dims[0];
  if (b >= 0 && !(call.Desc(b).dims == Dims{channels})) {
    return InvalidArgument("%s: bias has shape %s; allowed: [%lld], one value per output channel", api,
                           ToString(call.Desc(b).dims).c_str(), ll{channels});
  }
  out.op = op::FindOperator(transposed ? "ConvTranspose" : "Conv");
  if (!out.op) return Errorf(Code::kNotImplemented, "%s: the operator is not part of this build", api);
  out.attrs.Set("strides", call.Ints("stride"));
  out.attrs.Set("dilations", call.Ints("dilation"));
  out.attrs.Set("pads", std::move(pads));
  out.attrs.Set("group", call.Int("groups"));
  if (transposed) out.attrs.Set("output_padding", call.Ints("outputPadding"));
  out.inputs = {{x, x_desc}, {w, w_desc}};
  if (b >= 0) out.inputs.push_back({b, call.Desc(b)});
  out.outputs = {{y, call.Desc(y)}};
  return OkStatus();
}

}  // namespace opsnn::capi
