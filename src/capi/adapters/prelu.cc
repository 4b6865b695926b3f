// aclnnPrelu and its gradient: one slope per channel (dim 1), or one for all.
#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

int64_t Channels(const Dims& dims) { return dims.rank() > 1 ? dims[1] : 1; }

// The slopes as an operand that broadcasts to x.
Result<Operand> Slopes(const Call& call, const Operand& weight, const Operand& x) {
  const int64_t n = NumElements(weight.desc.dims);
  // At most one dim is not 1; it carries the stride.
  int64_t stride = 0;
  int long_dims = 0;
  for (int i = 0; i < weight.desc.dims.rank(); ++i) {
    if (weight.desc.dims[i] == 1) continue;
    stride = StridesOf(weight.desc)[i];
    ++long_dims;
  }
  if ((n != 1 && n != Channels(x.desc.dims)) || long_dims > 1) {
    return InvalidArgument(
        "%s: weight has shape %s; allowed: one element, or %lld in one dim, one for each channel of self",
        call.function().api, ToString(weight.desc.dims).c_str(),
        static_cast<long long>(Channels(x.desc.dims)));
  }
  Dims dims = Dims::Filled(x.desc.dims.rank(), 1), strides = Dims::Filled(x.desc.dims.rank(), 0);
  if (n != 1) {
    dims[1] = n;
    strides[1] = stride;
  }
  return WithView(weight, dims, strides);
}

}  // namespace

Status Adapt_PRelu(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self");
  OPSNN_ASSIGN_OR_RETURN(const Operand slopes, Slopes(call, Arg(call, "weight"), x));
  out.inputs = {x, slopes};
  out.outputs = {Arg(call, "out")};
  out.converts_output = true;
  return OkStatus();
}

Status Adapt_PReluGrad(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), dx = Arg(call, "gradInput"), dw = Arg(call, "gradWeight");
  Operand dy = Arg(call, "gradOutput");
  const DType t = x.desc.dtype;
  for (const char* other : {"gradOutput", "weight", "gradInput", "gradWeight"})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, Arg(call, other), t, "self"));
  auto common = BroadcastDims(dy.desc.dims, x.desc.dims);
  if (!common.ok() || !(common.value() == x.desc.dims)) {
    return BadValue(call, "gradOutput", "of shape " + ToString(dy.desc.dims),
                    "shapes that broadcast to that of self, " + ToString(x.desc.dims));
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, dx, x));
  OPSNN_ASSIGN_OR_RETURN(const Operand slopes, Slopes(call, Arg(call, "weight"), x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, dw, Arg(call, "weight")));
  OPSNN_ASSIGN_OR_RETURN(const Operand sums, Slopes(call, dw, x));
  dy = BroadcastView(dy, x.desc.dims);

  // The terms of gradWeight stay in f32 until they are summed up.
  const Operand terms = out.Temp(DType::kF32, x.desc.dims), total = out.Temp(DType::kF32, sums.desc.dims);
  OpCall products, sum, store;
  products.op = op::FindOperator("PReluGrad");
  products.attrs.Set("wrt_slope", int64_t{1});
  products.inputs = {dy, x, slopes};
  products.outputs = {terms};
  products.converts_output = true;
  std::vector<int64_t> axes;
  for (int i = 0; i < x.desc.dims.rank(); ++i) {
    if (sums.desc.dims[i] == 1) axes.push_back(i);
  }
  sum.op = op::FindOperator("ReduceSum");
  sum.attrs.Set("keepdims", int64_t{1});
  sum.attrs.Set("noop_with_empty_axes", int64_t{1});
  sum.inputs = {terms, ConstantInts(axes)};
  sum.outputs = {total};
  ProgramBuilder b;
  b.Output(b.Unary(StageOp::kCopy, b.Input()));
  store = ProgramCall(std::move(b).Build(), {total}, {sums});
  out.first.push_back(std::move(products));
  out.first.push_back(std::move(sum));
  out.first.push_back(std::move(store));
  out.op = op::FindOperator("PReluGrad");
  out.inputs = {dy, x, slopes};
  out.outputs = {dx};
  return OkStatus();
}

}  // namespace opsnn::capi
