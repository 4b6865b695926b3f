// Max pools that say where their values come from, the way back, and unpooling. Positions count inside one
// plane: y * W + x, or (z * H + y) * W + x.
#include <algorithm>

#include "capi/adapters/pool_windows.h"

namespace opsnn::capi {
namespace {

using ll = long long;

int AxesOf(const Call& call) {
  return std::string_view(call.function().api).find("3d") != std::string_view::npos ? 3 : 2;
}

int64_t PlaneSize(const Dims& dims, int axes) {
  int64_t n = 1;
  for (int i = dims.rank() - axes; i < dims.rank(); ++i) n *= dims[i];
  return n;
}

// Contiguous [planes, elements] of o; a temporary that is stored in y at the end where y is strided.
Dims Planes(const Operand& o, int axes) {
  const int64_t size = PlaneSize(o.desc.dims, axes);
  int64_t planes = 1;
  for (int i = 0; i < o.desc.dims.rank() - axes; ++i) planes *= o.desc.dims[i];
  return {planes, size};
}

Status RequireIndices(const Call& call, const Operand& indices, const Operand& like) {
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, indices, like));
  if (indices.desc.dtype == DType::kS64 || indices.desc.dtype == DType::kS32) return OkStatus();
  return InvalidArgument("%s: %s has dtype %s; allowed: s64, s32", call.function().api,
                         NameOf(call, indices).c_str(), Name(indices.desc.dtype));
}

// The leading dims of two images are the same.
Status RequireSamePlanes(const Call& call, const Operand& a, const Operand& b, int axes) {
  const int rank = b.desc.dims.rank();
  bool same = a.desc.dims.rank() == rank;
  for (int i = 0; same && i < rank - axes; ++i) same = a.desc.dims[i] == b.desc.dims[i];
  if (same) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: the planes of %s, whose shape is %s",
                         call.function().api, NameOf(call, a).c_str(), ToString(a.desc.dims).c_str(),
                         NameOf(call, b).c_str(), ToString(b.desc.dims).c_str());
}

// y = zeros with the values at their positions; values that meet add up, in f32 for halves, or replace.
Status BindScatterPlanes(const Operand& values, const Operand& indices, const Operand& y, int axes, bool add,
                         OpCall* out) {
  if (add && IsFloat(y.desc.dtype) && y.desc.dtype != DType::kF64) {
    Take(CallOf("MaxPoolGrad", {values, indices}, {y}), out);
    out->attrs.Set("axes", int64_t{axes});
    out->attrs.Set("shape", std::vector<int64_t>(y.desc.dims.begin(), y.desc.dims.end()));
    return OkStatus();
  }
  const DType as = add && IsHalf(y.desc.dtype) ? DType::kF32 : y.desc.dtype;
  const Dims flat = Planes(y, axes);
  const Operand from = Reshaped(Contiguously(values, out), Planes(values, axes));
  const Operand at = Reshaped(Contiguously(indices, out), Planes(indices, axes));
  const Operand to = y.desc.IsContiguous() ? y : out->Temp(y.desc.dtype, y.desc.dims);
  OpCall scatter =
      CallOf("ScatterElements", {BroadcastView(ConstantFloat(0, as), flat), at, WithDType(from, as)},
             {WithDType(Reshaped(to, flat), as)});
  scatter.attrs.Set("axis", int64_t{1});
  if (add) scatter.attrs.Set("reduction", std::string("add"));
  if (to.temp < 0) {
    Take(std::move(scatter), out);
    return OkStatus();
  }
  out->first.push_back(std::move(scatter));
  Take(CallOf("Identity", {to}, {y}), out);
  return OkStatus();
}

Status ReadWindows(const Call& call, int axes, op::Attrs* attrs) {
  const auto n = static_cast<size_t>(axes);
  OPSNN_ASSIGN_OR_RETURN(const auto kernel, PerAxis(call, "kernelSize", n, 1));
  OPSNN_ASSIGN_OR_RETURN(const auto stride, PerAxis(call, "stride", n, 1, &kernel));
  OPSNN_ASSIGN_OR_RETURN(auto pads, PerAxis(call, "padding", n, 0));
  OPSNN_ASSIGN_OR_RETURN(const auto dilation, PerAxis(call, "dilation", n, 1));
  for (size_t i = 0; i < kernel.size(); ++i) {
    if (2 * pads[i] <= kernel[i]) continue;
    return BadValue(call, "padding", "a list with " + std::to_string(pads[i]),
                    StrFormat("at most %lld, half of the kernel", ll{kernel[i] / 2}));
  }
  pads.insert(pads.end(), pads.begin(), pads.end());
  attrs->Set("kernel_shape", kernel);
  attrs->Set("strides", stride);
  attrs->Set("pads", pads);
  attrs->Set("dilations", dilation);
  attrs->Set("ceil_mode", int64_t{call.Int("ceilMode") != 0});
  return OkStatus();
}

// Positions in the whole tensor, as the operator counts, become positions in their plane.
OpCall LocalPositions(const Operand& whole, int64_t plane, const Operand& to) {
  ProgramBuilder b;
  const SlotId i = b.Input(ComputeType::kS64);
  b.Output(b.Binary(StageOp::kMod, i, b.Const(static_cast<double>(plane), ComputeType::kS64)));
  return ProgramCall(std::move(b).Build(), {whole}, {to});
}

}  // namespace

Status Adapt_MaxPoolIndices(const Call& call, OpCall& out) {
  const int axes = AxesOf(call);
  const Operand self = Arg(call, "self"), result = Arg(call, "out"), indices = Arg(call, "indices");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, axes + 1, axes + 2));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, result, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, result, self.desc.dims.rank(), self.desc.dims.rank()));
  OPSNN_RETURN_IF_ERROR(RequireIndices(call, indices, result));
  const Operand x = WithBatch(self, axes), y = WithBatch(result, axes), at = WithBatch(indices, axes);
  OpCall pool = CallOf("MaxPool", {x}, {y, out.Temp(DType::kS64, y.desc.dims)});
  OPSNN_RETURN_IF_ERROR(ReadWindows(call, axes, &pool.attrs));
  const Operand whole = pool.outputs[1];
  out.first.push_back(std::move(pool));
  Take(LocalPositions(whole, std::max<int64_t>(1, PlaneSize(x.desc.dims, axes)), at), &out);
  return OkStatus();
}

namespace {

// What the mask operators know of a pool.
void CopyWindows(const op::Attrs& pool, const Operand& image, op::Attrs* mask) {
  for (const char* name : {"kernel_shape", "strides", "pads"}) mask->Set(name, pool.Ints(name));
  mask->Set("image", std::vector<int64_t>{image.desc.dims[2], image.desc.dims[3]});
}

Status RequireOnes(const Call& call, const char* param) {
  OPSNN_ASSIGN_OR_RETURN(const auto values, PerAxis(call, param, 2, 1));
  for (int64_t v : values) {
    if (v != 1) return BadValue(call, param, "a list with " + std::to_string(v), "1");
  }
  return OkStatus();
}

// Images have channels and pixels; a batch may be empty.
Status RequirePixels(const Call& call, const Operand& image) {
  const Dims& d = image.desc.dims;
  for (int i = d.rank() - 3; i < d.rank(); ++i) {
    if (d[i] < 1)
      return BadValue(call, NameOf(call, image).c_str(), "of shape " + ToString(d), "channels and pixels");
  }
  return OkStatus();
}

}  // namespace

// Positions as masks: bits of the elements of the windows.
Status Adapt_MaxPoolMask(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), result = Arg(call, "out"), bits = Arg(call, "indices");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 3, 4));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, result, self.desc.dtype, "self"));
  for (const Operand* o : {&result, &bits})
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, self.desc.dims.rank(), self.desc.dims.rank()));
  OPSNN_RETURN_IF_ERROR(RequireOnes(call, "dilation"));
  const Operand x = WithBatch(self, 2), y = WithBatch(result, 2);
  OPSNN_RETURN_IF_ERROR(RequirePixels(call, self));
  OpCall pool = CallOf("MaxPool", {x}, {y, out.Temp(DType::kS64, y.desc.dims)});
  OPSNN_RETURN_IF_ERROR(ReadWindows(call, 2, &pool.attrs));
  OpCall mark = CallOf("MaxPoolMask", {}, {WithBatch(bits, 2)});
  CopyWindows(pool.attrs, x, &mark.attrs);
  const Operand whole = pool.outputs[1], local = out.Temp(DType::kS64, y.desc.dims);
  out.first.push_back(std::move(pool));
  out.first.push_back(LocalPositions(whole, PlaneSize(x.desc.dims, 2), local));
  mark.inputs = {local};
  Take(std::move(mark), &out);
  return OkStatus();
}

Status Adapt_MaxPoolMaskGrad(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "gradInput");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 3, 4));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequirePixels(call, self));
  for (const char* param : {"gradOutput", "indices"})
    OPSNN_RETURN_IF_ERROR(RequireSamePlanes(call, Arg(call, param), self, 2));
  const Operand grad = WithBatch(Arg(call, "gradOutput"), 2), bits = WithBatch(Arg(call, "indices"), 2);
  for (const Operand* o : {&self, &y})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, grad.desc.dtype, "gradOutput"));
  OPSNN_RETURN_IF_ERROR(RequireOnes(call, "dilation"));
  op::Attrs pool;
  OPSNN_RETURN_IF_ERROR(ReadWindows(call, 2, &pool));
  const Operand positions = out.Temp(DType::kS64, grad.desc.dims);
  OpCall find = CallOf("MaxPoolMaskPositions", {bits}, {positions});
  CopyWindows(pool, WithBatch(self, 2), &find.attrs);
  find.attrs.Set("pooled", std::vector<int64_t>{grad.desc.dims[2], grad.desc.dims[3]});
  out.first.push_back(std::move(find));
  return BindScatterPlanes(grad, positions, WithBatch(y, 2), 2, true, &out);
}

namespace {

// What one listed element of a window costs, of an axis or of a plane.
constexpr size_t kBytesPerElement = sizeof(int64_t);

// The windows of an axis one after the other, each repeated at its end to the size of the largest.
struct AxisMap {
  std::vector<int64_t> elements;
  int64_t kernel = 1;
};

Result<AxisMap> MapOf(const Call& call, int64_t n, int64_t count) {
  AxisMap map;
  OPSNN_RETURN_IF_ERROR(RequireRoom(call, count, kBytesPerElement));
  const AdaptiveAxis axis{n, std::max<int64_t>(1, count)};
  for (int64_t i = 0; i < count; ++i) map.kernel = std::max(map.kernel, axis.end(i) - axis.begin(i));
  OPSNN_RETURN_IF_ERROR(
      RequireRoom(call, map.kernel, kBytesPerElement * static_cast<size_t>(std::max<int64_t>(1, count))));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < map.kernel; ++k)
      map.elements.push_back(std::min(axis.begin(i) + k, axis.end(i) - 1));
  }
  return map;
}

// The position in a plane of x of every element of a plane that the maps gathered.
Result<Operand> PositionsOf(const Call& call, const std::vector<AxisMap>& maps, const Operand& x,
                            int64_t plane) {
  OPSNN_ASSIGN_OR_RETURN(const auto table, NewConstant(call, DType::kS64, {plane}));
  for (int64_t i = 0; i < plane; ++i) {
    int64_t rest = i, position = 0, scale = 1;
    for (size_t a = maps.size(); a-- > 0;) {
      const auto& map = maps[a].elements;
      const auto size = static_cast<int64_t>(map.size());
      position += map[static_cast<size_t>(rest % size)] * scale;
      rest /= size, scale *= x.desc.dims[2 + static_cast<int>(a)];
    }
    table->as<int64_t>()[i] = position;
  }
  return Constant(table);
}

// y and positions in whole images, of windows side by side. The call that finds them is appended to `first`.
Operand PoolSideBySide(const Operand& x, const Operand& y, const std::vector<int64_t>& kernel, OpCall* out) {
  OpCall pool = CallOf("MaxPool", {x}, {y, out->Temp(DType::kS64, y.desc.dims)});
  pool.attrs.Set("kernel_shape", kernel);
  pool.attrs.Set("strides", kernel);
  const Operand whole = pool.outputs[1];
  out->first.push_back(std::move(pool));
  return whole;
}

}  // namespace

// Windows of one size lie side by side. Otherwise each output gathers its window first.
Status Adapt_AdaptiveMaxPool(const Call& call, OpCall& out) {
  const int axes = AxesOf(call);
  const Operand self = Arg(call, "self"), result = Arg(call, "outputOut"), indices = Arg(call, "indicesOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, axes + 1, axes + 2));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, result, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireSamePlanes(call, result, self, axes));
  OPSNN_RETURN_IF_ERROR(RequireIndices(call, indices, result));
  const auto& sizes = call.Ints("outputSize");
  const Operand x = WithBatch(self, axes), y = WithBatch(result, axes), at = WithBatch(indices, axes);
  OPSNN_RETURN_IF_ERROR(RequireOutputSizes(call, static_cast<size_t>(axes)));
  std::vector<int64_t> even;
  for (int a = 0; a < axes; ++a) {
    const int64_t n = x.desc.dims[2 + a], count = sizes[static_cast<size_t>(a)];
    if (count != y.desc.dims[2 + a] || count < 0 || (n == 0 && count > 0)) {
      return InvalidArgument(
          "%s: outputOut has shape %s; allowed: outputSize as its last dims, self with elements",
          call.function().api, ToString(result.desc.dims).c_str());
    }
    if (count > 0 && n % count == 0) even.push_back(n / count);
  }
  if (static_cast<int>(even.size()) == axes) {
    const Operand whole = PoolSideBySide(x, y, even, &out);
    Take(LocalPositions(whole, PlaneSize(x.desc.dims, axes), at), &out);
    return OkStatus();
  }
  std::vector<AxisMap> maps;
  std::vector<int64_t> kernel;
  Operand from = x;
  for (int a = 0; a < axes; ++a) {
    OPSNN_ASSIGN_OR_RETURN(AxisMap map, MapOf(call, x.desc.dims[2 + a], sizes[static_cast<size_t>(a)]));
    Dims dims = from.desc.dims;
    dims[2 + a] = static_cast<int64_t>(map.elements.size());
    const Operand to = out.Temp(x.desc.dtype, dims);
    out.first.push_back(Along("Gather", 2 + a, {from, ConstantInts(map.elements)}, to));
    from = to;
    kernel.push_back(map.kernel);
    maps.push_back(std::move(map));
  }
  const Operand whole = PoolSideBySide(from, y, kernel, &out), local = out.Temp(DType::kS64, y.desc.dims);
  int64_t plane = 1;
  for (const AxisMap& map : maps) {
    const auto size = static_cast<int64_t>(map.elements.size());
    OPSNN_RETURN_IF_ERROR(
        RequireRoom(call, size, kBytesPerElement * static_cast<size_t>(std::max<int64_t>(1, plane))));
    plane *= size;
  }
  out.first.push_back(LocalPositions(whole, std::max<int64_t>(1, plane), local));
  OPSNN_ASSIGN_OR_RETURN(const Operand table, PositionsOf(call, maps, x, plane));
  Take(CallOf("Gather", {table, local}, {WithDType(at, DType::kS64)}), &out);
  out.attrs.Set("axis", int64_t{0});
  return OkStatus();
}

Status Adapt_MaxPoolGrad(const Call& call, OpCall& out) {
  const int axes = AxesOf(call);
  const Operand grad = Arg(call, "gradOutput"), self = Arg(call, "self"), indices = Arg(call, "indices");
  const Operand y = Arg(call, "gradInput");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, axes + 1, axes + 2));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequireSamePlanes(call, grad, self, axes));
  OPSNN_RETURN_IF_ERROR(RequireIndices(call, indices, grad));
  for (const Operand* o : {&self, &y})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, grad.desc.dtype, "gradOutput"));
  if (call.function().Find("kernelSize") >= 0) {
    op::Attrs unused;  // only their values are checked: the positions say all
    OPSNN_RETURN_IF_ERROR(ReadWindows(call, axes, &unused));
  }
  return BindScatterPlanes(grad, indices, y, axes, true, &out);
}

Status Adapt_MaxUnpool(const Call& call, OpCall& out) {
  const int axes = AxesOf(call);
  const bool gradient = call.function().Find("gradOutput") >= 0;
  const Operand self = Arg(call, "self"), indices = Arg(call, "indices");
  const Operand big = gradient ? Arg(call, "gradOutput") : Arg(call, {"out", "outRef"});
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, axes + 1, axes + 2));
  OPSNN_RETURN_IF_ERROR(RequireIndices(call, indices, self));
  OPSNN_RETURN_IF_ERROR(RequireSamePlanes(call, big, self, axes));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, big, self.desc.dtype, "self"));
  const auto& sizes = call.Ints("outputSize");
  if (static_cast<int>(sizes.size()) != axes)
    return BadValue(call, "outputSize", StrFormat("a list of %zu", sizes.size()), std::to_string(axes));
  for (int a = 0; a < axes; ++a) {
    const int64_t size = big.desc.dims[big.desc.dims.rank() - axes + a];
    if (sizes[static_cast<size_t>(a)] == size) continue;
    return BadValue(call, "outputSize", ToString(Dims(std::span<const int64_t>(sizes))),
                    "the last dims of " + NameOf(call, big) + ", whose shape is " + ToString(big.desc.dims));
  }
  if (!gradient) return BindScatterPlanes(self, indices, big, axes, false, &out);
  const Operand y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  const Operand from = Reshaped(Contiguously(big, &out), Planes(big, axes));
  const Operand at = Reshaped(Contiguously(indices, &out), Planes(indices, axes));
  const Operand to = y.desc.IsContiguous() ? y : out.Temp(y.desc.dtype, y.desc.dims);
  OpCall gather = CallOf("GatherElements", {from, at}, {Reshaped(to, Planes(y, axes))});
  gather.attrs.Set("axis", int64_t{1});
  if (to.temp < 0) {
    Take(std::move(gather), &out);
    return OkStatus();
  }
  out.first.push_back(std::move(gather));
  Take(CallOf("Identity", {to}, {y}), &out);
  return OkStatus();
}

}  // namespace opsnn::capi
