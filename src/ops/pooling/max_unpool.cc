#include <cstring>
#include <optional>
#include <vector>

#include "op/pointwise.h"
#include "ops/data/data_op.h"

namespace opsnn::ops {
namespace {

constexpr const char* kOp = "MaxUnpool";
using ll = long long;

// The image that MaxPool saw, as far as its attributes tell: what the positions refer to.
Result<Dims> PooledFrom(const Dims& x, const op::Attrs& attrs) {
  OPSNN_RETURN_IF_ERROR(CheckRank(kOp, "X", x, 3, kMaxRank));
  const size_t spatial = static_cast<size_t>(x.rank() - 2);
  const std::vector<int64_t> kernel = attrs.Ints("kernel_shape");
  std::vector<int64_t> strides = attrs.Ints("strides"), pads = attrs.Ints("pads");
  if (strides.empty()) strides.assign(spatial, 1);
  if (pads.empty()) pads.assign(2 * spatial, 0);
  if (kernel.size() != spatial || strides.size() != spatial || pads.size() != 2 * spatial) {
    return InvalidArgument(
        "%s: attributes kernel_shape, strides and pads have %zu, %zu and %zu values; allowed: %zu, %zu and "
        "%zu",
        kOp, kernel.size(), strides.size(), pads.size(), spatial, spatial, 2 * spatial);
  }
  constexpr int64_t kMost = int64_t{1} << 30;
  Dims dims = x;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t& d = dims[static_cast<int>(i) + 2];
    for (const int64_t v : {kernel[i], strides[i], pads[i] + 1, pads[spatial + i] + 1}) {
      if (v < 1 || v > kMost) {
        return InvalidArgument(
            "%s: spatial dimension %zu has kernel %lld, stride %lld, pads %lld and %lld; "
            "allowed: kernels and strides from 1, pads from 0, to 2^30",
            kOp, i, ll{kernel[i]}, ll{strides[i]}, ll{pads[i]}, ll{pads[spatial + i]});
      }
    }
    if (d == kUnknownDim) continue;
    if (d > kMost) return InvalidArgument("%s: X has shape %s, too large", kOp, opsnn::ToString(x).c_str());
    d = (d - 1) * strides[i] + kernel[i] - pads[i] - pads[spatial + i];
    if (d < 0) {
      return InvalidArgument("%s: spatial dimension %zu of the result would be %lld; allowed: 0 and above",
                             kOp, i, ll{d});
    }
  }
  return dims;
}

Status Infer(op::InferContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &positions = *c.inputs[1];
  if (!x.known_rank) return SetOutput(c, UnknownRank(x.dtype));
  if (positions.known_rank && IsKnown(x.dims) && IsKnown(positions.dims) && x.dims != positions.dims) {
    return InvalidArgument("%s: I has shape %s; allowed: %s, that of X", kOp,
                           opsnn::ToString(positions.dims).c_str(), opsnn::ToString(x.dims).c_str());
  }
  OPSNN_ASSIGN_OR_RETURN(Dims dims, PooledFrom(x.dims, op::AttrsOf(c.attrs)));
  if (!IsGiven(c.inputs, 2)) return SetOutput(c, Desc(x.dtype, dims));
  const auto shape = ConstantInts(c.inputs, 2);
  if (!shape) return SetOutput(c, Desc(x.dtype, Dims::Filled(x.dims.rank(), kUnknownDim)));
  bool fits = shape->size() == static_cast<size_t>(dims.rank());
  for (int i = 0; fits && i < dims.rank(); ++i) {
    const int64_t want = (*shape)[static_cast<size_t>(i)];
    fits = dims[i] == kUnknownDim ? want >= 0 : i < 2 ? want == dims[i] : want >= dims[i];
  }
  if (!fits) {
    return InvalidArgument("%s: output_shape is %s; allowed: at least %s, with the same batch and channels",
                           kOp, ToString(*shape).c_str(), opsnn::ToString(dims).c_str());
  }
  return SetOutput(c, Desc(x.dtype, Dims(std::span<const int64_t>(*shape))));
}

Result<op::KernelPtr> Plan(const op::PlanContext& c) {
  const op::TensorDesc &x = *c.inputs[0], &y = c.outputs[0];
  OPSNN_ASSIGN_OR_RETURN(const Dims from, PooledFrom(x.dims, op::AttrsOf(c.attrs)));
  const int64_t count = NumElements(x.dims), size = NumElements(from);
  const auto elem = static_cast<int64_t>(SizeOf(x.dtype));
  const auto run = [=, to = y.dims, strides = ContiguousStrides(y.dims)](const op::RunArgs& args) -> Status {
    const auto* positions = static_cast<const int64_t*>(args.inputs[1]);
    for (int64_t i = 0; i < count; ++i) {
      if (positions[i] >= 0 && positions[i] < size) continue;
      return InvalidArgument("%s: position %lld at element %lld of I is outside [0, %lld]", kOp,
                             ll{positions[i]}, ll{i}, ll{size - 1});
    }
    char* out = static_cast<char*>(args.outputs[0]);
    std::memset(out, 0, static_cast<size_t>(NumElements(to) * elem));
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = positions[i], at = 0;
      for (int d = to.rank() - 1; d >= 0; --d) {
        at += rest % from[d] * strides[d];
        rest /= from[d];
      }
      std::memcpy(out + at * elem, static_cast<const char*>(args.inputs[0]) + i * elem,
                  static_cast<size_t>(elem));
    }
    return OkStatus();
  };
  return Staged(c, MakeKernel("elements", run));
}

}  // namespace
}  // namespace opsnn::ops

OPSNN_DEFINE_OPERATOR(MaxUnpool) {
  def.infer = Infer;
  def.plan = Plan;
}
