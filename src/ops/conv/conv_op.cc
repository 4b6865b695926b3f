// Argument checks and shape inference of Conv and ConvTranspose.
#include "ops/conv/conv_op.h"

#include "op/pointwise.h"

namespace opsnn::ops {
namespace {

using op::InferContext;
using op::TensorDesc;
using ll = long long;

Status CheckRanks(const char* name, const Dims& x, const Dims& w) {
  if (x.rank() < 3 || x.rank() > 5) {
    return InvalidArgument(
        "%s: X has shape %s; allowed: rank 3 (N, C, L), 4 (N, C, H, W) or 5 (N, C, D, H, W)", name,
        ToString(x).c_str());
  }
  if (w.rank() != x.rank()) {
    return InvalidArgument("%s: W has shape %s; allowed: rank %d, that of X", name, ToString(w).c_str(),
                           x.rank());
  }
  return OkStatus();
}

Status CheckChannels(const char* name, bool transposed, const Dims& x, const Dims& w, int64_t groups) {
  const int64_t c = x[1];
  if (groups < 1) return InvalidArgument("%s: attribute group is %lld; allowed: 1 or more", name, ll{groups});
  if (c >= 0 && c % groups != 0) {
    return InvalidArgument(
        "%s: X has %lld channels, which attribute group = %lld does not divide; allowed: a "
        "multiple of group",
        name, ll{c}, ll{groups});
  }
  int64_t product;
  if (w[1] >= 0 && __builtin_mul_overflow(w[1], groups, &product)) {
    return InvalidArgument(
        "%s: attribute group is %lld and W has shape %s; allowed: a divisor of the number of "
        "channels",
        name, ll{groups}, ToString(w).c_str());
  }
  const int64_t wc = transposed ? w[0] : w[1] < 0 ? kUnknownDim : w[1] * groups;
  if (c >= 0 && wc >= 0 && wc != c) {
    return InvalidArgument(
        "%s: W has shape %s with group %lld, made for %lld channels; X has %lld; allowed: dim "
        "%d of W equal to %lld",
        name, ToString(w).c_str(), ll{groups}, ll{wc}, ll{c}, transposed ? 0 : 1,
        ll{transposed ? c : c / groups});
  }
  if (!transposed && w[0] >= 0 && w[0] % groups != 0) {
    return InvalidArgument(
        "%s: W has %lld output channels, which attribute group = %lld does not divide; "
        "allowed: a multiple of group",
        name, ll{w[0]}, ll{groups});
  }
  return OkStatus();
}

// Kernel sizes from W, which attribute kernel_shape may only repeat.
Result<Dims> KernelDims(const char* name, const Dims& w, const op::Attrs& attrs) {
  Dims kernel;
  const std::span<const int64_t> given = op::IntsOf(attrs, "kernel_shape");
  if (!given.empty() && static_cast<int>(given.size()) != w.rank() - 2) {
    return InvalidArgument(
        "%s: attribute kernel_shape has %zu values; allowed: %d, one per spatial dimension", name,
        given.size(), w.rank() - 2);
  }
  for (int i = 2; i < w.rank(); ++i) {
    int64_t k = w[i];
    if (!given.empty()) {
      const int64_t g = given[static_cast<size_t>(i - 2)];
      if (k >= 0 && g != k) {
        return InvalidArgument("%s: attribute kernel_shape[%d] is %lld; allowed: %lld, the size of W", name,
                               i - 2, ll{g}, ll{k});
      }
      k = g;
    }
    kernel.push_back(k);
  }
  return kernel;
}

Status CheckOutputPadding(const char* name, const op::Window& w, int dim, int64_t padding) {
  const int axis = w.AxisOf(dim);
  const int64_t limit = std::max(w.stride[axis], w.dilation[axis]);
  if (padding >= 0 && padding < limit) return OkStatus();
  return InvalidArgument(
      "%s: attribute output_padding[%d] is %lld; allowed: 0 to %lld, less than the larger of stride %lld and "
      "dilation %lld",
      name, dim, ll{padding}, ll{limit - 1}, ll{w.stride[axis]}, ll{w.dilation[axis]});
}

// output_padding or output_shape: one value per spatial dim, or absent.
Status CheckCount(const char* name, const char* attr, std::span<const int64_t> v, int spatial) {
  if (v.empty() || static_cast<int>(v.size()) == spatial) return OkStatus();
  return InvalidArgument("%s: attribute %s has %zu values; allowed: %d, one per spatial dimension", name,
                         attr, v.size(), spatial);
}

Status InferConv(const char* name, bool transposed, InferContext& c) {
  const TensorDesc &x = *c.inputs[0], &w = *c.inputs[1];
  TensorDesc y;
  y.dtype = x.dtype;
  if (!x.known_rank || !w.known_rank) {
    y.known_rank = false;
    c.outputs.assign(1, y);
    return OkStatus();
  }
  OPSNN_ASSIGN_OR_RETURN(ConvCall call, ResolveConv(name, transposed, x.dims, w.dims, op::AttrsOf(c.attrs)));
  const TensorDesc* b = c.inputs.size() > 2 ? c.inputs[2] : nullptr;
  const int64_t oc = call.out[1];
  if (b && b->known_rank && (b->dims.rank() != 1 || (b->dims[0] >= 0 && oc >= 0 && b->dims[0] != oc))) {
    return InvalidArgument("%s: B has shape %s; allowed: [%lld], one value per output channel", name,
                           ToString(b->dims).c_str(), ll{oc});
  }
  y.dims = call.out;
  c.outputs.assign(1, y);
  return OkStatus();
}

}  // namespace

Result<ConvCall> ResolveConv(const char* name, bool transposed, const Dims& x, const Dims& w,
                             const op::Attrs& attrs) {
  OPSNN_RETURN_IF_ERROR(CheckRanks(name, x, w));
  ConvCall call;
  call.groups = attrs.Int("group", 1);
  OPSNN_RETURN_IF_ERROR(CheckChannels(name, transposed, x, w, call.groups));
  OPSNN_ASSIGN_OR_RETURN(const Dims kernel, KernelDims(name, w, attrs));
  const int spatial = x.rank() - 2;
  const int64_t oc = transposed ? (w[1] < 0 ? kUnknownDim : w[1] * call.groups) : w[0];
  call.out = Dims{x[0], oc};
  if (!IsKnown(kernel)) {
    for (int i = 0; i < spatial; ++i) call.out.push_back(kUnknownDim);
    return call;
  }
  OPSNN_ASSIGN_OR_RETURN(call.window, op::ReadWindow(name, attrs, kernel));
  std::span<const int64_t> extra, wanted;  // attributes of ConvTranspose alone
  if (transposed) extra = op::IntsOf(attrs, "output_padding"), wanted = op::IntsOf(attrs, "output_shape");
  OPSNN_RETURN_IF_ERROR(CheckCount(name, "output_padding", extra, spatial));
  OPSNN_RETURN_IF_ERROR(CheckCount(name, "output_shape", wanted, spatial));
  for (int i = 0; i < spatial; ++i) {
    const int axis = call.window.AxisOf(i);
    const int64_t in = x[2 + i];
    const int64_t padding = extra.empty() ? 0 : extra[static_cast<size_t>(i)];
    const int64_t size = wanted.empty() ? kUnknownDim : wanted[static_cast<size_t>(i)];
    if (transposed) OPSNN_RETURN_IF_ERROR(CheckOutputPadding(name, call.window, i, padding));
    if (in < 0) {
      call.out.push_back(transposed ? size : kUnknownDim);
      continue;
    }
    Result<int64_t> out = transposed ? op::TransposedOutput(name, &call.window, axis, in, padding, size)
                                     : op::WindowOutput(name, &call.window, axis, in);
    if (!out.ok()) return out.status();
    call.out.push_back(*out);
  }
  if (IsKnown(call.out) && !CheckedNumElements(call.out)) {
    return InvalidArgument(
        "%s: the output shape %s has too many elements; allowed: a count that fits 63 bits", name,
        ToString(call.out).c_str());
  }
  return call;
}

Result<conv::ConvShape> ShapeOfCall(const char* name, bool transposed, const Dims& x, const Dims& w,
                                    const op::Attrs& attrs) {
  OPSNN_ASSIGN_OR_RETURN(const ConvCall call, ResolveConv(name, transposed, x, w, attrs));
  conv::ConvShape s;
  s.n = x[0], s.c = x[1], s.oc = call.out[1];
  const op::Window& win = call.window;
  const auto size = [&win](const Dims& dims, int axis) {  // 1 where there is no such dim
    const int i = win.DimOf(axis);
    return i < 0 || i >= win.spatial ? int64_t{1} : dims[2 + i];
  };
  s.d = size(x, 2), s.h = size(x, 0), s.w = size(x, 1);
  s.od = size(call.out, 2), s.oh = size(call.out, 0), s.ow = size(call.out, 1);
  s.kd = win.kernel[2], s.kh = win.kernel[0], s.kw = win.kernel[1];
  s.sd = win.stride[2], s.sh = win.stride[0], s.sw = win.stride[1];
  s.dd = win.dilation[2], s.dh = win.dilation[0], s.dw = win.dilation[1];
  s.pf = win.pad_begin[2], s.pt = win.pad_begin[0], s.pl = win.pad_begin[1];
  s.groups = call.groups;
  s.transposed = transposed;
  s.im2col = attrs.Int("im2col", 0) != 0;
  constexpr int64_t kMaxPlane = int64_t{1}
                                << 30;  // offsets inside a plane are 32-bit in the kernels' tap lists
  if (s.d > kMaxPlane || s.od > kMaxPlane || s.h > kMaxPlane || s.w > kMaxPlane || s.oh > kMaxPlane ||
      s.ow > kMaxPlane) {
    return InvalidArgument("%s: X has shape %s and Y %s; allowed: spatial sizes up to 2^30", name,
                           ToString(x).c_str(), ToString(call.out).c_str());
  }
  return s;
}

void DefineConv(op::OpDef& def, bool transposed) {
  const char* name = transposed ? "ConvTranspose" : "Conv";
  def.infer = [name, transposed](InferContext& c) { return InferConv(name, transposed, c); };
  def.plan = [name, transposed](const op::PlanContext& c) { return PlanConvolution(name, transposed, c); };
}

}  // namespace opsnn::ops
