// Images: AvgPool2d and UpsampleNearest.
#include <algorithm>
#include <optional>

#include "capi/adapters/common.h"
#include "op/window.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// (C, H, W) is a batch of one.
Operand WithBatch(const Operand& o) {
  if (o.desc.dims.rank() != 3) return o;
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  dims.insert(0, 1), strides.insert(0, 0);
  return WithView(o, dims, strides);
}

// One value for both dims, or two; `fallback` where an empty list is allowed.
Result<std::vector<int64_t>> Pair(const Call& call, const char* param, int64_t lowest,
                                  const std::vector<int64_t>* fallback = nullptr) {
  std::vector<int64_t> v = call.Ints(param);
  if (v.empty() && fallback) return *fallback;
  if (v.empty() || v.size() > 2) {
    return InvalidArgument("%s: %s has %zu values; allowed: %s1 or 2", call.function().api, param, v.size(),
                           fallback ? "0, " : "");
  }
  for (int64_t k : v) {
    constexpr int64_t kMost = int64_t{1} << 30;  // what the operator's windows take
    if (k < lowest || k > kMost) {
      return BadValue(call, param, "a list with " + std::to_string(k),
                      StrFormat("%lld to %lld", ll{lowest}, ll{kMost}));
    }
  }
  if (v.size() == 1) v.push_back(v[0]);
  return v;
}

// The dims that the pool gives; none where it refuses its input.
std::optional<Dims> PooledDims(const OpCall& pool) {
  const op::TensorDesc* inputs[] = {&pool.inputs[0].desc};
  op::InferContext c;
  c.inputs = inputs;
  c.attrs = &pool.attrs;
  if (!op::Infer(*pool.op, c).ok()) return std::nullopt;
  return c.outputs[0].dims;
}

// How many positions of the padded image the windows cover along `axis` (0: height, 1: width), as an operand
// that broadcasts over the result.
Result<Operand> Covered(const Call& call, const op::Attrs& attrs, const Dims& x, const Dims& y, int axis) {
  op::Attrs window;
  for (const char* name : {"strides", "pads"}) window.Set(name, attrs.Ints(name));
  window.Set("ceil_mode", attrs.Int("ceil_mode", 0));
  OPSNN_ASSIGN_OR_RETURN(const op::Window w,
                         op::ReadWindow(call.function().api, window, Dims(attrs.Ints("kernel_shape"))));
  Dims dims = Dims::Filled(4, 1);
  dims[2 + axis] = y[2 + axis];
  OPSNN_ASSIGN_OR_RETURN(const auto t, NewConstant(call, DType::kF32, dims));
  const int64_t padded = x[2 + axis] + w.pad_begin[axis] + w.pad_end[axis];
  for (int64_t i = 0; i < dims[2 + axis]; ++i) {
    const int64_t start = i * w.stride[axis];
    t->as<float>()[i] = static_cast<float>(std::min(start + w.kernel[axis], padded) - start);
  }
  return Constant(t);
}

}  // namespace

Status Adapt_AvgPool2d(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), result = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 3, 4));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, result, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, result, self.desc.dims.rank(), self.desc.dims.rank()));
  const Operand x = WithBatch(self), y = WithBatch(result);
  OPSNN_ASSIGN_OR_RETURN(const auto kernel, Pair(call, "kernelSize", 1));
  OPSNN_ASSIGN_OR_RETURN(const auto strides, Pair(call, "strides", 1, &kernel));
  OPSNN_ASSIGN_OR_RETURN(const auto pads, Pair(call, "paddings", 0));
  OPSNN_RETURN_IF_ERROR(RequireCubeMathType(call, 3));
  for (int i = 0; i < 2; ++i) {
    if (2 * pads[i] <= kernel[i]) continue;
    return BadValue(call, "paddings", "a list with " + std::to_string(pads[i]),
                    StrFormat("at most %lld, half of the kernel's %lld", ll{kernel[i] / 2}, ll{kernel[i]}));
  }
  const int64_t divisor = call.Int("divisorOverride");
  OpCall pool;
  pool.op = op::FindOperator("AveragePool");
  pool.attrs.Set("kernel_shape", kernel);
  pool.attrs.Set("strides", strides);
  pool.attrs.Set("pads", std::vector<int64_t>{pads[0], pads[1], pads[0], pads[1]});
  pool.attrs.Set("ceil_mode", int64_t{call.Int("ceilMode") != 0});
  pool.attrs.Set("count_include_pad", int64_t{divisor != 0 || call.Int("countIncludePad") != 0});
  pool.inputs = {x};
  pool.outputs = {y};
  // A result of another shape is left to the planner, which refuses it: no constants are made in its size.
  if (divisor == 0 || PooledDims(pool) != y.desc.dims) {
    out = std::move(pool);
    return OkStatus();
  }
  // The mean over the padded window, brought back to its sum and divided by what the caller wants.
  OPSNN_ASSIGN_OR_RETURN(const Operand rows, Covered(call, pool.attrs, x.desc.dims, y.desc.dims, 0));
  OPSNN_ASSIGN_OR_RETURN(const Operand columns, Covered(call, pool.attrs, x.desc.dims, y.desc.dims, 1));
  const Operand mean = out.Temp(DType::kF32, y.desc.dims);
  pool.inputs = {WithDType(x, DType::kF32)};
  pool.outputs = {mean};
  out.first.push_back(std::move(pool));
  ProgramBuilder b;
  const SlotId m = b.Input(), h = b.Input(), v = b.Input();
  const SlotId count = b.Binary(StageOp::kMul, h, v);
  const SlotId factor = b.Binary(StageOp::kDiv, count, b.Const(static_cast<double>(divisor)));
  b.Output(b.Binary(StageOp::kMul, m, factor));
  OpCall scale = ProgramCall(std::move(b).Build(), {mean, rows, columns}, {y});
  Take(std::move(scale), &out);
  return OkStatus();
}

// One, two or three dims of pixels behind batch and channels.
Status Adapt_UpsampleNearest(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), y = Arg(call, "out");
  const std::vector<int64_t>& size = call.Ints("outputSize");
  const char* api = call.function().api;
  const int rank = std::string_view(api).find("1d") != std::string_view::npos   ? 3
                   : std::string_view(api).find("2d") != std::string_view::npos ? 4
                                                                                : 5;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, rank, rank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "self"));
  if (size.size() != static_cast<size_t>(rank) - 2) {
    return InvalidArgument("%s: outputSize has %zu values; allowed: %d", api, size.size(), rank - 2);
  }
  const Dims& d = x.desc.dims;
  std::vector<int64_t> dims = {d[0], d[1]};
  for (int i = 2; i < rank; ++i) dims.push_back(size[static_cast<size_t>(i) - 2]);
  for (size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] >= 1 && d[static_cast<int>(i)] >= 1) continue;
    return InvalidArgument("%s: self has shape %s and outputSize is %s; allowed: sizes of 1 or more", api,
                           ToString(d).c_str(), ToString(Dims(std::span<const int64_t>(size))).c_str());
  }
  out.op = op::FindOperator("Resize");
  out.attrs.Set("mode", std::string("nearest"));
  out.attrs.Set("coordinate_transformation_mode", std::string("asymmetric"));
  out.attrs.Set("nearest_mode", std::string("floor"));
  out.inputs = {x, Operand{}, Operand{}, ConstantInts(dims)};
  out.outputs = {y};
  return OkStatus();
}

}  // namespace opsnn::capi
