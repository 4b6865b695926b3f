// Pools whose windows are the product of one window per axis: AvgPool3d, adaptive means, and the gradients of
// all average pools. Along each axis the result is a product with the matrix that says which elements a
// window takes and with which weight; gradients go through the operator that spreads them over the windows.
#include <algorithm>
#include <array>
#include <numeric>

#include "capi/adapters/pool_windows.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// The windows along one axis: [begin, end) of the elements of each, and what their sum is divided by.
struct AxisWindows {
  int64_t size = 0;
  std::vector<int64_t> begin, end;
  std::vector<double> divisor;
  // The axis is that many equal pieces, and no window meets two of them.
  int64_t pieces = 1;
};

// What a listed window costs: both ends and the divisor, here and as attributes.
constexpr size_t kBytesPerWindow = 2 * (2 * sizeof(int64_t) + sizeof(double));

AxisWindows AdaptiveWindows(int64_t size, int64_t count) {
  AxisWindows w{size, {}, {}, {}, std::max<int64_t>(1, std::gcd(size, count))};
  const AdaptiveAxis axis{size, std::max<int64_t>(1, count)};
  for (int64_t i = 0; i < count; ++i) {
    w.begin.push_back(axis.begin(i));
    w.end.push_back(axis.end(i));
    w.divisor.push_back(static_cast<double>(w.end.back() - w.begin.back()));
  }
  return w;
}

// What the arguments of an average pool say for all axes.
struct PoolArgs {
  std::vector<int64_t> kernel, stride, pads;
  bool ceil = false, include_pad = false;
  int64_t divisor = 0;
};

int64_t PooledSize(const PoolArgs& p, size_t axis, int64_t size) {
  const int64_t k = p.kernel[axis], s = p.stride[axis], pad = p.pads[axis];
  // Rounding up, a window may reach out of the image by less than a stride; the only one as well.
  const int64_t room = size + 2 * pad - k + (p.ceil ? s - 1 : 0);
  if (room < 0) return 0;
  int64_t n = room / s + 1;
  if (p.ceil && (n - 1) * s >= size + pad) --n;  // the last window must begin inside
  return n;
}

AxisWindows SlidingWindows(const PoolArgs& p, size_t axis, int64_t size, int64_t count) {
  const int64_t k = p.kernel[axis], pad = p.pads[axis];
  AxisWindows w{size, {}, {}, {}};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * p.stride[axis] - pad;
    w.begin.push_back(std::max<int64_t>(start, 0));
    w.end.push_back(std::min(start + k, size));
    const int64_t covered = p.include_pad ? std::min(start + k, size + pad) - start : w.end[i] - w.begin[i];
    w.divisor.push_back(p.divisor ? 1 : static_cast<double>(covered));
  }
  return w;
}

// [windows, size] of one piece, or transposed.
Result<Operand> MatrixOf(const Call& call, const AxisWindows& w, double factor, bool transposed) {
  const int64_t count = static_cast<int64_t>(w.begin.size()) / w.pieces, size = w.size / w.pieces;
  OPSNN_RETURN_IF_ERROR(
      RequireRoom(call, size, static_cast<size_t>(std::max<int64_t>(1, count)) * sizeof(float)));
  OPSNN_ASSIGN_OR_RETURN(const auto m,
                         NewConstant(call, DType::kF32, transposed ? Dims{size, count} : Dims{count, size}));
  std::fill(m->as<float>(), m->as<float>() + count * size, 0.0F);
  for (int64_t o = 0; o < count; ++o) {
    const auto value = static_cast<float>(factor / w.divisor[static_cast<size_t>(o)]);
    for (int64_t i = w.begin[static_cast<size_t>(o)]; i < w.end[static_cast<size_t>(o)]; ++i)
      m->as<float>()[transposed ? i * count + o : o * size + i] = value;
  }
  return Constant(m);
}

// dx = dy spread over the windows of the last axes.
Status BindGradient(const Call& call, const Operand& dy, const Operand& dx,
                    const std::vector<AxisWindows>& windows, double factor, OpCall* out) {
  // The windows of every row and slice are looked up before.
  for (size_t i = 0; i + 1 < windows.size(); ++i)
    OPSNN_RETURN_IF_ERROR(RequireRoom(call, windows[i].size, kBytesPerWindow));
  std::vector<int64_t> begin, end;
  std::vector<double> divisor;
  for (const AxisWindows& w : windows) {
    begin.insert(begin.end(), w.begin.begin(), w.begin.end());
    end.insert(end.end(), w.end.begin(), w.end.end());
    for (const double d : w.divisor) divisor.push_back(&w == windows.data() ? d / factor : d);
  }
  Take(CallOf("AveragePoolGrad", {dy}, {dx}), out);
  out->attrs.Set("axes", static_cast<int64_t>(windows.size()));
  out->attrs.Set("shape", std::vector<int64_t>(dx.desc.dims.begin(), dx.desc.dims.end()));
  out->attrs.Set("begin", std::move(begin));
  out->attrs.Set("end", std::move(end));
  out->attrs.Set("divisor", std::move(divisor));
  return OkStatus();
}

// The axis as two: its pieces and what is in each.
Operand InPieces(const Operand& o, int axis, int64_t pieces) {
  if (pieces == 1) return o;
  const Dims strides = StridesOf(o.desc);
  Dims dims, steps;
  for (int i = 0; i < o.desc.dims.rank(); ++i) {
    const int64_t size = o.desc.dims[i] / (i == axis ? pieces : 1);
    if (i == axis) dims.push_back(pieces), steps.push_back(strides[i] * size);
    dims.push_back(size), steps.push_back(strides[i]);
  }
  return WithView(o, dims, steps);
}

// y = x through the matrices of the last axes, all in f32; the last product is stored in the type of y.
Status BindAxes(const Call& call, const Operand& x, const Operand& y, const std::vector<AxisWindows>& windows,
                double factor, bool gradient, OpCall* out) {
  if (gradient) return BindGradient(call, x, y, windows, factor, out);
  const int axes = static_cast<int>(windows.size()), rank = x.desc.dims.rank();
  Operand from = WithDType(x, DType::kF32);
  std::vector<OpCall> calls;
  for (int a = 0; a < axes; ++a) {
    const int axis = rank - axes + a;
    // The last axis is multiplied from the right.
    const bool last = a == axes - 1, right = last;
    OPSNN_ASSIGN_OR_RETURN(const Operand m,
                           MatrixOf(call, windows[static_cast<size_t>(a)], a == 0 ? factor : 1, right));
    Dims next = from.desc.dims;
    next[axis] = y.desc.dims[axis];
    const Operand to = last ? WithDType(y, DType::kF32) : out->Temp(DType::kF32, next);
    const int64_t pieces = windows[static_cast<size_t>(a)].pieces;
    const int along = pieces > 1 ? axis + 1 : axis;
    // [lead, axis, behind]: the dims in front stay, those behind become columns.
    auto columns = [&](const Operand& whole) {
      const Operand o = InPieces(whole, axis, pieces);
      if (axis >= rank - 2) return o;
      Dims dims = o.desc.dims;
      int64_t behind = 1;
      while (dims.rank() > along + 1) behind *= dims.back(), dims.resize(dims.rank() - 1);
      dims.push_back(behind);
      return Reshaped(o, dims);
    };
    if (right) {
      calls.push_back(CallOf("MatMul", {InPieces(from, axis, pieces), m}, {InPieces(to, axis, pieces)}));
    } else {
      if (axis < rank - 2 && !from.desc.IsContiguous()) {
        const Operand dense = out->Temp(DType::kF32, from.desc.dims);
        calls.push_back(CallOf("Identity", {from}, {dense}));
        from = dense;
      }
      calls.push_back(CallOf("MatMul", {m, columns(from)}, {columns(to)}));
    }
    from = to;
  }
  return TakeAll(std::move(calls), out);
}

Result<PoolArgs> ReadPool(const Call& call, size_t axes) {
  PoolArgs p;
  OPSNN_ASSIGN_OR_RETURN(p.kernel, PerAxis(call, "kernelSize", axes, 1));
  OPSNN_ASSIGN_OR_RETURN(p.stride, PerAxis(call, "stride", axes, 1, &p.kernel));
  OPSNN_ASSIGN_OR_RETURN(p.pads, PerAxis(call, "padding", axes, 0));
  for (size_t i = 0; i < axes; ++i) {
    if (2 * p.pads[i] <= p.kernel[i]) continue;
    return BadValue(call, "padding", "a list with " + std::to_string(p.pads[i]),
                    StrFormat("at most %lld, half of the kernel", ll{p.kernel[i] / 2}));
  }
  p.ceil = call.Int("ceilMode") != 0;
  p.include_pad = call.Int("countIncludePad") != 0;
  p.divisor = call.Int("divisorOverride");
  if (p.divisor < -(int64_t{1} << 53) || p.divisor > int64_t{1} << 53)
    return BadValue(call, "divisorOverride", std::to_string(p.divisor), "0, or what a double holds");
  return p;
}

Status BindAverage(const Call& call, const Operand& x, const Operand& y, bool gradient, size_t axes,
                   OpCall* out) {
  const Operand &image = gradient ? y : x, &pooled = gradient ? x : y;
  const int rank = image.desc.dims.rank(), first = rank - static_cast<int>(axes);
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "the input"));
  OPSNN_ASSIGN_OR_RETURN(const PoolArgs p, ReadPool(call, axes));
  Dims want = image.desc.dims;
  for (size_t a = 0; a < axes; ++a) {
    const int i = first + static_cast<int>(a);
    want[i] = PooledSize(p, a, image.desc.dims[i]);
    if (want[i] > 0) continue;
    return BadValue(call, "kernelSize", "larger than the padded image, " + ToString(image.desc.dims),
                    "windows inside it");
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, pooled, want, "the shape of the pooled image"));
  std::vector<AxisWindows> windows;
  for (size_t a = 0; a < axes; ++a) {
    const int i = first + static_cast<int>(a);
    OPSNN_RETURN_IF_ERROR(RequireRoom(call, want[i], kBytesPerWindow));
    windows.push_back(SlidingWindows(p, a, image.desc.dims[i], want[i]));
  }
  return BindAxes(call, x, y, windows, p.divisor ? 1.0 / static_cast<double>(p.divisor) : 1, gradient, out);
}

// Means over equal windows side by side: over whole images one reduction, else a pool.
void BindEven(const Operand& image, const Operand& pooled, const std::vector<int64_t>& kernel, OpCall* out) {
  const int rank = image.desc.dims.rank(), axes = static_cast<int>(kernel.size());
  std::vector<int64_t> dims;
  bool whole = true;
  for (int i = rank - axes; i < rank; ++i) dims.push_back(i), whole = whole && pooled.desc.dims[i] == 1;
  if (whole) {
    Reduce("ReduceMean", image, image.desc.dtype, pooled, dims, true, out);
    return;
  }
  Take(CallOf("AveragePool", {WithBatch(image, axes)}, {WithBatch(pooled, axes)}), out);
  out->attrs.Set("kernel_shape", kernel);
  out->attrs.Set("strides", kernel);
}

Status BindAdaptive(const Call& call, const Operand& image, const Operand& pooled, bool gradient, size_t axes,
                    OpCall* out) {
  const int rank = image.desc.dims.rank(), first = rank - static_cast<int>(axes);
  OPSNN_RETURN_IF_ERROR(RequireRank(call, image, static_cast<int>(axes) + 1, static_cast<int>(axes) + 2));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, pooled, rank, rank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, pooled, image.desc.dtype, "self"));
  std::vector<int64_t> kernel;  // where the windows of all axes are equal and side by side
  for (int i = 0; i < rank; ++i) {
    const int64_t in = image.desc.dims[i], n = pooled.desc.dims[i];
    if (i < first ? in == n : (in > 0 || n == 0)) {
      if (i < first) continue;
      kernel.push_back(n > 0 && in % n == 0 ? in / n : 0);
      continue;
    }
    return InvalidArgument(
        "%s: %s has shape %s; allowed: the first dims of self, whose shape is %s, which must "
        "have elements",
        call.function().api, NameOf(call, pooled).c_str(), ToString(pooled.desc.dims).c_str(),
        ToString(image.desc.dims).c_str());
  }
  const bool even = std::find(kernel.begin(), kernel.end(), 0) == kernel.end();
  if (!gradient && even) {
    BindEven(image, pooled, kernel, out);
    return OkStatus();
  }
  std::vector<AxisWindows> windows;
  for (int i = first; i < rank; ++i) {
    OPSNN_RETURN_IF_ERROR(RequireRoom(call, pooled.desc.dims[i], kBytesPerWindow));
    windows.push_back(AdaptiveWindows(image.desc.dims[i], pooled.desc.dims[i]));
  }
  const Operand &x = gradient ? pooled : image, &y = gradient ? image : pooled;
  return BindAxes(call, x, y, windows, 1, gradient, out);
}

}  // namespace

Status RequireOutputSizes(const Call& call, size_t axes) {
  const auto& size = call.Ints("outputSize");
  if (size.size() != axes) {
    return InvalidArgument("%s: outputSize has %zu values; allowed: %zu", call.function().api, size.size(),
                           axes);
  }
  for (size_t i = 0; i < axes; ++i) {
    if (size[i] >= 0) continue;
    return InvalidArgument("%s: outputSize[%zu] is %lld; allowed: 0 or more", call.function().api, i,
                           static_cast<long long>(size[i]));
  }
  return OkStatus();
}

Status Adapt_AvgPool3d(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 5));
  return BindAverage(call, x, y, false, 3, &out);
}

Status Adapt_AvgPoolGrad(const Call& call, OpCall& out) {
  const bool deep = std::string_view(call.function().api) == "aclnnAvgPool3dBackward";
  const Operand grad = Arg(call, "gradOutput"), self = Arg(call, "self"),
                y = Arg(call, {"gradInput", "output"});
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, deep ? 4 : 3, deep ? 5 : 4));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, grad, self.desc.dims.rank(), self.desc.dims.rank()));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, self, grad.desc.dtype, "gradOutput"));
  return BindAverage(call, grad, y, true, deep ? 3 : 2, &out);
}

Status Adapt_AdaptiveAvgPool(const Call& call, OpCall& out) {
  const size_t axes = std::string_view(call.function().api).find("3d") != std::string_view::npos ? 3 : 2;
  if (call.function().Find("gradOutput") >= 0) {
    const Operand grad = Arg(call, "gradOutput"), self = Arg(call, "self"), y = Arg(call, "out");
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
    OPSNN_RETURN_IF_ERROR(RequireDType(call, self, grad.desc.dtype, "gradOutput"));
    return BindAdaptive(call, y, grad, true, axes, &out);
  }
  const Operand x = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireOutputSizes(call, axes));
  const auto& size = call.Ints("outputSize");
  for (size_t i = 0; i < axes; ++i) {
    const int at = y.desc.dims.rank() - static_cast<int>(axes - i);
    if (at >= 0 && y.desc.dims[at] == size[i]) continue;
    return InvalidArgument("%s: out has shape %s; allowed: %s as its last dims, as outputSize says",
                           call.function().api, ToString(y.desc.dims).c_str(),
                           ToString(Dims(std::span<const int64_t>(size))).c_str());
  }
  return BindAdaptive(call, x, y, false, axes, &out);
}

}  // namespace opsnn::capi
