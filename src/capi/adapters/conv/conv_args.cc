#include "capi/adapters/conv/conv_args.h"

#include <algorithm>

#include "acl/acl_base.h"

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

Status CheckConvFormats(const Call& call, std::initializer_list<const char*> params) {
  for (const char* param : params) {
    if (call.TensorIndex(param) < 0) continue;
    const int format = call.tensors()[call.TensorIndex(param)].object->format;
    if (format == ACL_FORMAT_NHWC || format == ACL_FORMAT_NDHWC || format == ACL_FORMAT_HWCN) {
      return InvalidArgument("%s: %s has format %d; allowed: NCL, NCHW, NCDHW, ND", call.function().api,
                             param, format);
    }
  }
  return OkStatus();
}

Status CheckConvShapes(const Call& call, const char* name, const Dims& x, const Dims& w, int64_t groups,
                       bool transposed) {
  const char* api = call.function().api;
  if (x.rank() < 3 || x.rank() > 5) {
    return InvalidArgument("%s: %s has %d dims; allowed: 3 (N, C, L), 4 (N, C, H, W) or 5 (N, C, D, H, W)",
                           api, name, x.rank());
  }
  if (w.rank() != x.rank()) {
    return InvalidArgument("%s: weight has %d dims; allowed: %d, as %s has", api, w.rank(), x.rank(), name);
  }
  if (groups < 1 || groups > 65535) {
    return InvalidArgument("%s: groups is %lld; allowed: 1 to 65535", api, ll{groups});
  }
  const auto divides = [&](const char* what, const Dims& dims, int64_t channels) -> Status {
    if (channels % groups == 0) return OkStatus();
    return InvalidArgument(
        "%s: groups is %lld and %s has shape %s; allowed: groups that divide its %lld channels", api,
        ll{groups}, what, ToString(dims).c_str(), ll{channels});
  };
  OPSNN_RETURN_IF_ERROR(divides(name, x, x[1]));
  const int64_t wanted = transposed ? x[1] : x[1] / groups;
  if (w[transposed ? 0 : 1] != wanted) {
    return InvalidArgument(
        "%s: groups is %lld and weight has shape %s; allowed: weight made for %lld input channels, whose dim "
        "%d is "
        "%lld",
        api, ll{groups}, ToString(w).c_str(), ll{x[1]}, transposed ? 0 : 1, ll{wanted});
  }
  if (!transposed) OPSNN_RETURN_IF_ERROR(divides("weight", w, w[0]));
  for (int i = 2; i < w.rank(); ++i) {
    if (w[i] < 1)
      return InvalidArgument("%s: weight has shape %s; allowed: spatial sizes of 1 or more", api,
                             ToString(w).c_str());
  }
  return OkStatus();
}

Result<op::Attrs> ConvAttributes(const Call& call, size_t spatial, int64_t groups, bool transposed) {
  OPSNN_RETURN_IF_ERROR(CheckList(call, "stride", spatial, 1));
  OPSNN_RETURN_IF_ERROR(CheckList(call, "dilation", spatial, 1));
  OPSNN_ASSIGN_OR_RETURN(std::vector<int64_t> pads, Pads(call, spatial, transposed));
  if (transposed) OPSNN_RETURN_IF_ERROR(CheckOutputPadding(call, spatial));
  op::Attrs attrs;
  attrs.Set("strides", call.Ints("stride"));
  attrs.Set("dilations", call.Ints("dilation"));
  attrs.Set("pads", std::move(pads));
  attrs.Set("group", groups);
  if (transposed) attrs.Set("output_padding", call.Ints("outputPadding"));
  return attrs;
}

std::string Listed(const Call& call, const char* param) {
  std::string s = "[";
  for (int64_t v : call.Ints(param)) s += (s.size() > 1 ? "," : "") + std::to_string(v);
  return s + "]";
}

Status CheckBias(const Call& call, const Operand& bias, int64_t channels) {
  if (!bias.given() || bias.desc.dims == Dims{channels}) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: [%lld], one value per output channel",
                         call.function().api, NameOf(call, bias).c_str(), ToString(bias.desc.dims).c_str(),
                         ll{channels});
}

OpCall ConvCall(const char* op, op::Attrs attrs, std::vector<Operand> inputs, const Operand& output,
                bool halves) {
  while (!inputs.empty() && !inputs.back().given()) inputs.pop_back();
  const bool as_they_are = halves && std::all_of(inputs.begin(), inputs.end(), [&output](const Operand& o) {
                             return o.desc.dtype == output.desc.dtype;
                           });
  if (!as_they_are)
    for (Operand& o : inputs) o = WithDType(o, DType::kF32);
  OpCall c = CallOf(op, std::move(inputs), {as_they_are ? output : WithDType(output, DType::kF32)});
  c.attrs = std::move(attrs);
  return c;
}

}  // namespace opsnn::capi
