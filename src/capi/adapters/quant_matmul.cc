// aclnnQuantMatmulV3 and V4: out = (x1 x2 + bias) * scale * token scale + offset, exact in s32 up to the
// bias; a bias of a float type is added after the scales instead. Rounded once, to nearest even.
#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

using ll = long long;

Operand Transposed(const Operand& o, bool transpose) {
  if (!transpose) return o;
  std::vector<int> order;
  for (int i = 0; i < o.desc.dims.rank(); ++i) order.push_back(i);
  std::swap(order[order.size() - 2], order[order.size() - 1]);
  return Permuted(o, order);
}

// A scale per tensor or per column.
Result<Operand> ColumnScale(const Call& call, const Operand& o, int64_t n) {
  const Dims& d = o.desc.dims;
  const bool one = NumElements(d) == 1;
  if (d.rank() > 2 || d.rank() < 1 || !(one || (d.back() == n && NumElements(d) == n))) {
    return InvalidArgument("%s: %s has shape %s; allowed: [1], [%lld] or [1,%lld]", call.function().api,
                           NameOf(call, o).c_str(), ToString(d).c_str(), ll{n}, ll{n});
  }
  const int64_t stride = StridesOf(o.desc).back();
  return WithView(o, {one ? 1 : n}, {one ? 0 : stride});
}

// What follows the product: the steps that the call gives operands for.
struct Steps {
  bool int_bias = false, float_bias = false, tokens = false, offset = false, to_s8 = false;
};

Program Dequantize(const Steps& s) {
  ProgramBuilder b;
  SlotId x = b.Input(ComputeType::kS32);
  const SlotId int_bias = s.int_bias ? b.Input(ComputeType::kS32) : kNoSlot;
  const SlotId scale = b.Input(), tokens = s.tokens ? b.Input() : kNoSlot;
  const SlotId added = s.float_bias || s.offset ? b.Input() : kNoSlot;
  if (s.int_bias) x = b.Binary(StageOp::kAdd, x, int_bias);
  x = b.Binary(StageOp::kMul, b.Convert(x, ComputeType::kF32), scale);
  if (s.tokens) x = b.Binary(StageOp::kMul, x, tokens);
  if (added != kNoSlot) x = b.Binary(StageOp::kAdd, x, added);
  if (s.to_s8) x = b.Unary(StageOp::kClip, b.Unary(StageOp::kRound, x), -128, 127);
  b.Output(x);
  return std::move(b).Build();
}

}  // namespace

Status Adapt_QuantMatmul(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  Operand x1 = Arg(call, "x1"), x2 = Arg(call, "x2");
  const Operand y = Arg(call, "out");
  for (const Operand* o : {&x1, &x2}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 6));
  x1 = Transposed(x1, call.Int("transposeX1") != 0);
  x2 = Transposed(x2, call.Int("transposeX2") != 0);
  const int64_t m = x1.desc.dims[x1.desc.dims.rank() - 2], k = x1.desc.dims.back(), n = x2.desc.dims.back();
  if (x2.desc.dims[x2.desc.dims.rank() - 2] != k) {
    return InvalidArgument("%s: x2 has shape %s with x1 of shape %s, after transposition; allowed: %lld rows",
                           api, ToString(x2.desc.dims).c_str(), ToString(x1.desc.dims).c_str(), ll{k});
  }
  Dims batch1 = x1.desc.dims, batch2 = x2.desc.dims;
  batch1.resize(batch1.rank() - 2), batch2.resize(batch2.rank() - 2);
  Result<Dims> batch = BroadcastDims(batch1, batch2);
  if (!batch.ok()) return batch.status().WithContext(api);
  Dims dims = *batch;
  dims.push_back(m), dims.push_back(n);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, dims, "the shape of the product"));

  Steps steps;
  const Operand product = out.Temp(DType::kS32, dims);
  std::vector<Operand> inputs = {product};
  const Operand bias = Arg(call, "bias"), offset = Arg(call, "offset");
  if (bias.given()) OPSNN_RETURN_IF_ERROR(RequireShape(call, bias, {n}, "one value per column"));
  steps.int_bias = bias.given() && bias.desc.dtype == DType::kS32;
  steps.float_bias = bias.given() && !steps.int_bias;
  if (steps.int_bias) inputs.push_back(bias);
  OPSNN_ASSIGN_OR_RETURN(const Operand scale, ColumnScale(call, Arg(call, "scale"), n));
  inputs.push_back(scale);
  if (call.function().Find("pertokenScaleOptional") >= 0 && call.Given("pertokenScaleOptional")) {
    const Operand tokens = Arg(call, "pertokenScaleOptional");
    OPSNN_RETURN_IF_ERROR(RequireShape(call, tokens, {m}, "one value per row"));
    inputs.push_back(WithView(tokens, {m, 1}, {StridesOf(tokens.desc)[0], 0}));
    steps.tokens = true;
  }
  if (offset.given() && steps.float_bias) {
    return InvalidArgument("%s: offset is given beside a bias of %s; allowed: one of them, or a bias of s32",
                           api, Name(bias.desc.dtype));
  }
  steps.offset = offset.given();
  if (steps.float_bias) inputs.push_back(bias);
  if (steps.offset) {
    OPSNN_ASSIGN_OR_RETURN(const Operand added, ColumnScale(call, offset, n));
    inputs.push_back(added);
  }
  steps.to_s8 = y.desc.dtype == DType::kS8;
  out.first.push_back(CallOf("MatMulInteger", {x1, x2}, {product}));
  Take(ProgramCall(Dequantize(steps), std::move(inputs), {y}), &out);
  return OkStatus();
}

}  // namespace opsnn::capi
