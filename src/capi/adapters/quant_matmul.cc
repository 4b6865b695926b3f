// Products of s8 matrices: out = (x1 x2 + bias) * scale * token scale + offset, exact in s32 up to the bias;
// a bias of a float type is added after the scales instead. Rounded once, to nearest even. A scale of 64 bits
// holds scale and offset as devices read them (aclnnTransQuantParam).
#include <string>

#include "capi/adapters/common.h"
#include "capi/adapters/quant_matmul_groups.h"
#include "capi/adapters/tiles.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// A scale per tensor or per column.
Result<Operand> ColumnScale(const Call& call, const Operand& o, int64_t n) {
  const Dims& d = o.desc.dims;
  const bool one = NumElements(d) == 1;
  if (d.rank() > 2 || (d.rank() < 1 && o.tensor >= 0) || !(one || (d.back() == n && NumElements(d) == n))) {
    return InvalidArgument("%s: %s has shape %s; allowed: [1], [%lld] or [1,%lld]", call.function().api,
                           NameOf(call, o).c_str(), ToString(d).c_str(), ll{n}, ll{n});
  }
  if (d.rank() == 0) return o;
  const int64_t stride = StridesOf(o.desc).back();
  return WithView(o, {one ? 1 : n}, {one ? 0 : stride});
}

// The operands of one product; all but the matrices, the scale and y may be absent.
struct Parts {
  Operand x1, x2, scale, tokens, offset, bias, y;
  bool transpose1 = false, transpose2 = false;
  StageOp activation = StageOp::kCopy;  // behind everything
  bool broadcasts = true;               // batches of one repeat
};

// What follows the product: the steps that the call gives operands for.
struct Steps {
  bool int_bias = false, scale = true, tokens = false, float_bias = false, offset = false, to_s8 = false;
  StageOp activation = StageOp::kCopy;
};

Program Dequantize(const Steps& s) {
  ProgramBuilder b;
  SlotId x = b.Input(ComputeType::kS32);
  const SlotId int_bias = s.int_bias ? b.Input(ComputeType::kS32) : kNoSlot;
  const SlotId scale = s.scale ? b.Input() : kNoSlot, tokens = s.tokens ? b.Input() : kNoSlot,
               float_bias = s.float_bias ? b.Input() : kNoSlot, offset = s.offset ? b.Input() : kNoSlot;
  if (s.int_bias) x = b.Binary(StageOp::kAdd, x, int_bias);
  if (s.scale) x = b.Binary(StageOp::kMul, b.Convert(x, ComputeType::kF32), scale);
  if (s.tokens) x = b.Binary(StageOp::kMul, x, tokens);
  if (s.float_bias) x = b.Binary(StageOp::kAdd, x, float_bias);
  if (s.offset) x = b.Binary(StageOp::kAdd, x, offset);
  if (s.activation != StageOp::kCopy) x = b.Unary(s.activation, x);
  if (s.to_s8) x = b.Unary(StageOp::kClip, b.Unary(StageOp::kRound, x), -128, 127);
  if (x == 0) x = b.Unary(StageOp::kCopy, x);
  b.Output(x);
  return std::move(b).Build();
}

Result<Dims> ProductDims(const Call& call, const Parts& p) {
  const Dims &a = p.x1.desc.dims, &b = p.x2.desc.dims;
  const int64_t m = a[a.rank() - 2], k = a.back(), n = b.back();
  if (b[b.rank() - 2] != k) {
    return InvalidArgument("%s: x2 has shape %s with x1 of shape %s, after transposition; allowed: %lld rows",
                           call.function().api, ToString(b).c_str(), ToString(a).c_str(), ll{k});
  }
  Dims batch1 = a, batch2 = b;
  batch1.resize(batch1.rank() - 2), batch2.resize(batch2.rank() - 2);
  Result<Dims> batch = BroadcastDims(batch1, batch2);
  if (batch.ok() && !p.broadcasts && !(batch1 == batch2))
    batch = InvalidArgument("x1 and x2 have batches %s and %s; allowed: the same", ToString(batch1).c_str(),
                            ToString(batch2).c_str());
  if (!batch.ok()) return batch.status().WithContext(call.function().api);
  Dims dims = *batch;
  dims.push_back(m), dims.push_back(n);
  return dims;
}

// [n] or [batch,1,n].
Status RequireBias(const Call& call, const Operand& bias, const Dims& product) {
  if (!bias.given()) return OkStatus();
  const int64_t n = product.back();
  const bool batched =
      bias.desc.dims.rank() == 3 && product.rank() == 3 && bias.desc.dims == Dims{product[0], 1, n};
  return batched ? OkStatus() : RequireShape(call, bias, {n}, "one value per column");
}

// Scale and offset out of 64 bits.
void UnpackScale(Parts* p, OpCall* out) {
  if (p->scale.desc.dtype != DType::kS64) return;
  const Operand scale = out->Temp(DType::kF32, p->scale.desc.dims);
  const bool offset = p->y.desc.dtype == DType::kS8 && !p->offset.given();
  std::vector<Operand> results = {scale};
  if (offset) results.push_back(out->Temp(DType::kF32, p->scale.desc.dims));
  out->first.push_back(CallOf("QuantParamValues", {p->scale}, results));
  p->scale = scale;
  if (offset) p->offset = results[1];
}

Status Bind(const Call& call, Parts p, OpCall* out) {
  for (const Operand* o : {&p.x1, &p.x2}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 6));
  if (p.transpose1) p.x1 = SwappedLast(p.x1);
  if (p.transpose2) p.x2 = SwappedLast(p.x2);
  OPSNN_ASSIGN_OR_RETURN(const Dims dims, ProductDims(call, p));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, p.y, dims, "the shape of the product"));
  const int64_t m = dims[dims.rank() - 2], n = dims.back();
  OPSNN_RETURN_IF_ERROR(RequireBias(call, p.bias, dims));
  UnpackScale(&p, out);
  Steps steps;
  std::vector<Operand> inputs = {p.x1, p.x2};
  steps.int_bias = p.bias.given() && p.bias.desc.dtype == DType::kS32;
  steps.float_bias = p.bias.given() && !steps.int_bias;
  if (steps.int_bias) inputs.push_back(p.bias);
  OPSNN_ASSIGN_OR_RETURN(const Operand scale, ColumnScale(call, p.scale, n));
  steps.scale = p.y.desc.dtype != DType::kS32;  // sums in s32 are what they are
  if (!steps.scale && (p.tokens.given() || p.offset.given() || steps.float_bias))
    return BadValue(call, "out", "of dtype s32", "f16 or bf16 with float scales, offsets or biases");
  if (steps.scale) inputs.push_back(scale);
  if (p.tokens.given()) {
    const bool one = NumElements(p.tokens.desc.dims) == 1 && p.tokens.desc.dims.rank() == 1;
    if (!one) OPSNN_RETURN_IF_ERROR(RequireShape(call, p.tokens, {m}, "one value per row"));
    inputs.push_back(one ? p.tokens : WithView(p.tokens, {m, 1}, {StridesOf(p.tokens.desc)[0], 0}));
    steps.tokens = true;
  }
  if (p.offset.given() && steps.float_bias && p.offset.tensor >= 0) {
    return InvalidArgument("%s: %s is given beside a bias of %s; allowed: one of them, or a bias of s32",
                           call.function().api, NameOf(call, p.offset).c_str(), Name(p.bias.desc.dtype));
  }
  if (steps.float_bias) inputs.push_back(p.bias);
  steps.offset = p.offset.given();
  if (steps.offset) {
    OPSNN_ASSIGN_OR_RETURN(const Operand added, ColumnScale(call, p.offset, n));
    inputs.push_back(added);
  }
  steps.to_s8 = p.y.desc.dtype == DType::kS8;
  steps.activation = p.activation;
  out->tail_inputs = static_cast<int>(inputs.size()) - 2;
  Take(CallOf("MatMulInteger", std::move(inputs), {p.y}), out);
  out->tail = std::make_shared<op::FusedTail>(op::FusedTail{Dequantize(steps)});
  return OkStatus();
}

// Operands of quantisations that are not here, or that the function keeps for later.
Status RequireAbsent(const Call& call, std::initializer_list<const char*> params) {
  for (const char* p : params) {
    if (call.function().Find(p) >= 0 && call.Given(p)) return BadValue(call, p, "given", "null");
  }
  return OkStatus();
}

}  // namespace

// aclnnQuantMatmul, V2, V3 and V4.
Status Adapt_QuantMatmul(const Call& call, OpCall& out) {
  const OpsnnFunction& f = call.function();
  Parts p;
  p.x1 = Arg(call, "x1"), p.x2 = Arg(call, "x2"), p.y = Arg(call, "out"), p.bias = Arg(call, "bias");
  if (f.Find("transposeX1") >= 0) {
    p.transpose1 = call.Int("transposeX1") != 0, p.transpose2 = call.Int("transposeX2") != 0;
    p.scale = Arg(call, "scale"), p.offset = Arg(call, "offset");
  } else if (f.Find("adjX1") >= 0) {
    p.transpose1 = call.Int("adjX1") != 0, p.transpose2 = call.Int("adjX2") != 0;
    p.scale = Arg(call, "deqScale");
    for (const Operand* o : {&p.x1, &p.x2}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 3));
    // One value per column, and as many more as fill up blocks of 16.
    const int64_t n = p.x2.desc.dims[p.x2.desc.dims.rank() - (p.transpose2 ? 2 : 1)];
    OPSNN_RETURN_IF_ERROR(RequireShape(call, p.scale, {(n + kTileRows - 1) / kTileRows * kTileRows},
                                       "the columns of x2, rounded up to 16"));
    p.scale = WithView(p.scale, {n}, {StridesOf(p.scale.desc)[0]});
  } else {
    for (const Operand* o : {&p.x1, &p.x2}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 3));
    p.scale = ConstantFloat(call.Double("deqScale"), DType::kF32);
    p.broadcasts = false;
  }
  if (f.Find("pertokenScaleOptional") >= 0) p.tokens = Arg(call, "pertokenScaleOptional");
  return Bind(call, std::move(p), &out);
}

// aclnnQuantMatmulV5 and WeightNz: s8 matrices with scales per tensor, row and column.
Status Adapt_QuantMatmulV5(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireAbsent(call, {"yScale", "x1Offset", "yOffset"}));
  Parts p;
  p.x1 = Arg(call, "x1"), p.y = Arg(call, "out"), p.bias = Arg(call, "bias");
  OPSNN_ASSIGN_OR_RETURN(p.x2, MatrixArg(call, "x2", &out));
  if (call.Int("groupSize") != 0) return BindGroupedMatmul(call, p.x2, &out);
  p.transpose1 = call.Int("transposeX1") != 0, p.transpose2 = call.Int("transposeX2") != 0;
  p.tokens = Arg(call, "x1Scale"), p.scale = Arg(call, "x2Scale"), p.offset = Arg(call, "x2Offset");
  if (p.tokens.given() && p.offset.given()) return BadValue(call, "x2Offset", "given", "null beside x1Scale");
  return Bind(call, std::move(p), &out);
}

Status Adapt_FusedQuantMatmul(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireAbsent(
      call, {"yScaleOptional", "x1OffsetOptional", "x2OffsetOptional", "yOffsetOptional", "x3Optional"}));
  if (call.Int("groupSizeOptional") != 0)
    return BadValue(call, "groupSizeOptional", std::to_string(call.Int("groupSizeOptional")), "0");
  const std::string fused = TextOf(call, "fusedOpType");
  Parts p;
  if (fused != "gelu_tanh" && fused != "gelu_erf")
    return BadValue(call, "fusedOpType", "\"" + fused + "\"", "\"gelu_tanh\", \"gelu_erf\"");
  p.activation = fused == "gelu_erf" ? StageOp::kGeluErf : StageOp::kGeluTanh;
  p.x1 = Arg(call, "x1"), p.y = Arg(call, "out"), p.bias = Arg(call, "biasOptional");
  OPSNN_ASSIGN_OR_RETURN(p.x2, MatrixArg(call, "x2", &out));
  p.tokens = Arg(call, "x1Scale"), p.scale = Arg(call, "x2Scale");
  for (const Operand* o : {&p.x1, &p.x2, &p.y}) {
    if (NumElements(o->desc.dims) == 0)
      return InvalidArgument("%s: %s is empty; allowed: one element or more", call.function().api,
                             NameOf(call, *o).c_str());
  }
  return Bind(call, std::move(p), &out);
}

namespace {

// round(x * smooth / step), the step given or that of each row.
Program QuantizeRows(bool smooth, bool given) {
  ProgramBuilder b;
  SlotId x = b.Input();
  const SlotId factor = smooth ? b.Input() : kNoSlot, step_in = given ? b.Input() : kNoSlot;
  constexpr double kMostInt8 = 127;
  const SlotId most = given ? kNoSlot : b.Const(kMostInt8, ComputeType::kF32, true);
  if (smooth) x = b.Binary(StageOp::kMul, x, factor);
  const SlotId step =
      given ? step_in : b.Binary(StageOp::kDiv, b.Unary(StageOp::kRowMax, b.Unary(StageOp::kAbs, x)), most);
  b.Output(b.Unary(StageOp::kRound, b.Binary(StageOp::kDiv, x, step)));
  if (!given) b.Output(step);
  return std::move(b).Build();
}

}  // namespace

// x is quantised by rows or as a whole, multiplied with s8 weights and scaled back.
Status Adapt_QuantMatmulDequant(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireAbsent(call, {"biasOptional", "xOffsetOptional"}));
  if (call.Int("transposeWeight") == 0) return BadValue(call, "transposeWeight", "false", "true");
  const Operand x = Arg(call, "x"), smooth = Arg(call, "smoothScaleOptional");
  Operand step = Arg(call, "xScaleOptional");
  Parts p;
  p.y = Arg(call, "out"), p.scale = Arg(call, "weightScale"), p.transpose2 = true;
  OPSNN_ASSIGN_OR_RETURN(p.x2, MatrixArg(call, "weight", &out));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, p.x2, 2, 2));
  const int64_t m = x.desc.dims[0], k = x.desc.dims[1];
  for (int64_t d : {p.x2.desc.dims[0], p.x2.desc.dims[1]}) {
    if (d > 0 && d % kTileRows == 0) continue;
    return BadValue(call, "weight", "of shape " + ToString(p.x2.desc.dims), "multiples of 16 above 0");
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, smooth, {k}, "the last dim of x"));
  const std::string mode = TextOf(call, "xQuantMode");
  if (mode != "pertoken" && mode != "pertensor")
    return BadValue(call, "xQuantMode", "\"" + mode + "\"", "\"pertoken\", \"pertensor\"");
  const bool tokens = mode == "pertoken", given = step.given();
  if (!given && !tokens)
    return BadValue(call, "xQuantMode", "\"pertensor\"", "\"pertoken\" without xScaleOptional");
  const bool packed = p.scale.desc.dtype == DType::kS64;
  if (packed != (given && step.desc.dtype == DType::kF16) || (packed && tokens)) {
    return BadValue(call, "weightScale", std::string("of dtype ") + Name(p.scale.desc.dtype),
                    "s64 with an xScaleOptional of f16 per tensor, f32 otherwise");
  }
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, step, {tokens ? m : 1}, tokens ? "one value per row" : "one value"));
  std::vector<Operand> inputs = {x};
  if (smooth.given()) inputs.push_back(smooth);
  p.x1 = out.Temp(DType::kS8, x.desc.dims);
  if (!given) step = out.Temp(DType::kF32, {m});
  const Operand column = tokens ? WithView(step, {m, 1}, {StridesOf(step.desc)[0], 0}) : step;
  std::vector<Operand> results = {p.x1};
  if (given) inputs.push_back(column);
  if (!given) results.push_back(column);
  out.first.push_back(
      ProgramCall(QuantizeRows(smooth.given(), given), std::move(inputs), std::move(results), given ? 0 : 1));
  if (!packed) p.tokens = step;  // a scale of 64 bits has that of x in it
  return Bind(call, std::move(p), &out);
}

// The sum of a batch of products, each scaled by row and column.
Status Adapt_QuantMatmulReduceSum(const Call& call, OpCall& out) {
  OPSNN_RETURN_IF_ERROR(RequireAbsent(call, {"yScale", "x1Offset", "x2Offset", "yOffset", "bias"}));
  const Operand x1 = Arg(call, "x1"), tokens = Arg(call, "x1Scale"), scale = Arg(call, "x2Scale"),
                y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const Operand x2, MatrixArg(call, "x2", &out));
  for (const char* flag : {"transposeX1", "transposeX2", "keepDims"}) {
    if (call.Int(flag) != 0) return BadValue(call, flag, "true", "false");
  }
  if (call.Int("groupSize") != 0)
    return BadValue(call, "groupSize", std::to_string(call.Int("groupSize")), "0");
  if (call.Ints("dims") != std::vector<int64_t>{0}) return BadValue(call, "dims", "another", "[0]");
  for (const Operand* o : {&x1, &x2}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 3, 3));
  const int64_t batch = x1.desc.dims[0], m = x1.desc.dims[1], k = x1.desc.dims[2], n = x2.desc.dims[2];
  if (!(x2.desc.dims == Dims{batch, k, n})) {
    return InvalidArgument("%s: x2 has shape %s with x1 of shape %s; allowed: (b, k, n) with (b, m, k)",
                           call.function().api, ToString(x2.desc.dims).c_str(),
                           ToString(x1.desc.dims).c_str());
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, tokens, {batch, m}, "one value per row"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, scale, {n}, "one value per column"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {m, n}, "the shape of the product"));
  const Operand each = out.Temp(DType::kF32, {batch, m, n});
  Steps steps;
  steps.tokens = true;
  const Dims strides = StridesOf(tokens.desc);
  OpCall product = CallOf(
      "MatMulInteger", {x1, x2, scale, WithView(tokens, {batch, m, 1}, {strides[0], strides[1], 0})}, {each});
  product.tail = std::make_shared<op::FusedTail>(op::FusedTail{Dequantize(steps)});
  product.tail_inputs = 2;
  out.first.push_back(std::move(product));
  OpCall sum;
  Reduce("ReduceSum", each, DType::kF32, y, {0}, false, &sum);
  Take(std::move(sum), &out);
  return OkStatus();
}

Status Adapt_TransQuantParam(const Call& call, OpCall& out) {
  const Operand scale = Arg(call, "scale"), offset = Arg(call, "offset"), y = Arg(call, "out");
  for (const Operand* o : {&scale, &y}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 1, 2));
  if (offset.given()) OPSNN_RETURN_IF_ERROR(RequireRank(call, offset, 1, 2));
  for (const Operand* o : {&scale, &offset}) {
    if (o->given() && NumElements(o->desc.dims) == 0)
      return InvalidArgument("%s: %s is empty; allowed: one element or more", call.function().api,
                             NameOf(call, *o).c_str());
  }
  int64_t rounds = 0;
  if (call.function().Find("roundMode") >= 0) {
    rounds = call.Int("roundMode");
    if (rounds != 0 && rounds != 1)
      return BadValue(call, "roundMode", std::to_string(rounds), "0 (cuts), 1 (rounds to nearest)");
  }
  out = CallOf("QuantParam", {scale, offset}, {y});
  out.attrs.Set("round_scale", rounds);
  return OkStatus();
}

}  // namespace opsnn::capi
