// aclnnMaxPool: (N, C, H, W) or (C, H, W); lists that are shorter than the operator's.
#include "capi/plan.h"

namespace opsnn::capi {
namespace {

// One value for both dims, two values, or `fallback` for an empty list.
Result<std::vector<int64_t>> Pair(const Call& call, const char* param, int64_t fallback, int64_t lowest,
                                  bool may_be_empty) {
  std::vector<int64_t> v = call.Ints(param);
  if (v.size() > 2 || (v.empty() && !may_be_empty)) {
    return InvalidArgument("%s: %s has %zu values; allowed: %s1 or 2", call.function().api, param, v.size(),
                           may_be_empty ? "0, " : "");
  }
  for (int64_t k : v) {
    constexpr int64_t kMost = int64_t{1} << 30;  // what the operator's windows take
    if (k >= lowest && k <= kMost) continue;
    return InvalidArgument("%s: %s has the value %lld; allowed: %lld to %lld", call.function().api, param,
                           static_cast<long long>(k), static_cast<long long>(lowest),
                           static_cast<long long>(kMost));
  }
  if (v.empty()) v = {fallback, fallback};
  if (v.size() == 1) v.push_back(v[0]);
  return v;
}

// Pads as (top, left, bottom, right).
Result<std::vector<int64_t>> Pads(const Call& call, const std::vector<int64_t>& kernel) {
  std::vector<int64_t> v = call.Ints("pads");
  if (v.size() == 3 || v.size() > 4) {
    return InvalidArgument("%s: pads has %zu values; allowed: 0, 1, 2 or 4", call.function().api, v.size());
  }
  if (v.empty()) v = {0};
  if (v.size() == 1) v.push_back(v[0]);
  if (v.size() == 2) v = {v[0], v[1], v[0], v[1]};
  for (int dim = 0; dim < 2; ++dim) {
    const int64_t begin = v[dim], end = v[dim + 2];
    if (begin >= 0 && end >= 0 && begin < kernel[dim] && end < kernel[dim] && begin + end <= kernel[dim])
      continue;
    return InvalidArgument(
        "%s: pads of the %s are %lld and %lld; allowed: 0 or more, together at most the kernel's %lld",
        call.function().api, dim ? "width" : "height", static_cast<long long>(begin),
        static_cast<long long>(end), static_cast<long long>(kernel[dim]));
  }
  return v;
}

// (C, H, W) is a batch of one.
op::TensorDesc WithBatch(op::TensorDesc d) {
  if (d.dims.rank() != 3) return d;
  if (!d.strides.empty()) d.strides.insert(0, d.strides[0] * d.dims[0]);
  d.dims.insert(0, 1);
  return d;
}

}  // namespace

Status Adapt_MaxPool(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const int x = call.TensorIndex("self"), y = call.TensorIndex("out");
  const op::TensorDesc x_desc = call.Desc(x), y_desc = call.Desc(y);
  const int rank = x_desc.dims.rank();
  if (rank != 3 && rank != 4) {
    return InvalidArgument("%s: self has %d dims; allowed: 3 (C, H, W) or 4 (N, C, H, W)", api, rank);
  }
  if (y_desc.dims.rank() != rank) {
    return InvalidArgument("%s: out has %d dims; allowed: %d, as self has", api, y_desc.dims.rank(), rank);
  }
  if (call.Int("autoPad") != 0) {
    return InvalidArgument("%s: autoPad is %lld; allowed: 0", api,
                           static_cast<long long>(call.Int("autoPad")));
  }
  const int64_t ceil = call.Int("ceilMode");
  if (ceil != 0 && ceil != 1) {
    return InvalidArgument("%s: ceilMode is %lld; allowed: 0, 1", api, static_cast<long long>(ceil));
  }
  OPSNN_ASSIGN_OR_RETURN(const auto kernel, Pair(call, "kernelShape", 1, 1, false));
  OPSNN_ASSIGN_OR_RETURN(const auto strides, Pair(call, "strides", 1, 1, true));
  OPSNN_ASSIGN_OR_RETURN(const auto pads, Pads(call, kernel));
  const auto& dilations = call.Ints("dilations");
  bool ones = dilations.size() != 3 && dilations.size() <= 4;
  for (int64_t d : dilations) ones = ones && d == 1;
  if (!ones) return InvalidArgument("%s: dilations must be 0, 1, 2 or 4 values of 1", api);
  out.attrs.Set("kernel_shape", kernel);
  out.attrs.Set("strides", strides);
  out.attrs.Set("pads", pads);
  out.attrs.Set("ceil_mode", ceil);
  out.inputs = {{x, WithBatch(x_desc)}};
  out.outputs = {{y, WithBatch(y_desc)}};
  return OkStatus();
}

}  // namespace opsnn::capi
