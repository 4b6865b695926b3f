// aclnnWeightQuantBatchMatmul in all versions: y = x (weight + offset) * scale + bias, with s8 weights that
// are brought to f32 before one f32 product. Scales are given per tensor, per column or per group of rows and
// column.
#include <algorithm>

#include "capi/adapters/formula_call.h"
#include "capi/adapters/tiles.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// Shape [1], [1,1], [n], [1,n] or [groups,n] as [groups,n] or [1,1].
Result<Operand> AsMatrix(const Call& call, const Operand& o, int64_t groups, int64_t n) {
  if (o.desc.dims.rank() == 1 || o.desc.dims.rank() == 2) {
    Dims dims = o.desc.dims, strides = StridesOf(o.desc);
    if (dims.rank() == 1) dims.insert(0, 1), strides.insert(0, 0);
    const bool per_tensor = dims[0] == 1 && dims[1] == 1 && groups == 1;
    if (per_tensor || (dims[0] == groups && dims[1] == n)) return WithView(o, dims, strides);
  }
  return InvalidArgument("%s: %s has shape %s; allowed: %s[%lld,%lld]", call.function().api,
                         NameOf(call, o).c_str(), ToString(o.desc.dims).c_str(),
                         groups == 1 ? "[1], [1,1], [n], " : "", ll{groups}, ll{n});
}

Program Dequantize(bool has_offset) {
  ProgramBuilder b;
  const SlotId weight = b.Input(ComputeType::kS32);
  const SlotId scale = b.Input();
  const SlotId offset = has_offset ? b.Input() : kNoSlot;
  SlotId w = b.Convert(weight, ComputeType::kF32);
  if (has_offset) w = b.Binary(StageOp::kAdd, w, offset);
  b.Output(b.Binary(StageOp::kMul, w, scale));
  return std::move(b).Build();
}

// Rows [from, from + rows) of a matrix as [groups, size, columns].
Operand Groups(Operand o, int64_t from, int64_t groups, int64_t size) {
  const Dims s = StridesOf(o.desc);
  o.offset += from * s[0];
  return WithView(o, {groups, size, o.desc.dims[1]}, {size * s[0], s[0], s[1]});
}

// Scale or offset of groups [from, from + groups), one row each.
Operand GroupRows(Operand o, int64_t from, int64_t groups) {
  const Dims s = StridesOf(o.desc);
  if (o.desc.dims[0] == 1) groups = 1, from = 0;
  o.offset += from * s[0];
  return WithView(o, {groups, 1, o.desc.dims[1]}, {s[0], 0, s[1]});
}

Result<int64_t> GroupSize(const Call& call, int64_t k) {
  const int64_t size = call.Int("antiquantGroupSize");
  if (size == 0) return k;
  if (size < 32 || size >= k || size % 32 != 0) {
    return BadValue(call, "antiquantGroupSize", std::to_string(size),
                    StrFormat("0, or multiples of 32 from 32 to %lld", ll{k} - 1));
  }
  return size;
}

Status BindBias(const Call& call, const char* param, int64_t n, OpCall* out) {
  Operand bias = Arg(call, param);
  ProgramBuilder b;
  const SlotId product = b.Input();
  if (!bias.given()) return OkStatus();
  OPSNN_ASSIGN_OR_RETURN(bias, AsMatrix(call, bias, 1, n));
  b.Output(b.Binary(StageOp::kAdd, product, b.Input()));
  out->inputs.push_back(bias);
  out->tail_inputs = 1;
  out->tail = std::make_shared<op::FusedTail>(op::FusedTail{std::move(b).Build()});
  return OkStatus();
}

}  // namespace

Status Adapt_WeightQuantBatchMatmul(const Call& call, OpCall& out) {
  const char* api = call.function().api;
  const Operand x = Arg(call, "x"), y = Arg(call, "y");
  OPSNN_ASSIGN_OR_RETURN(Operand weight, MatrixArg(call, "weight", &out));
  if (weight.desc.dtype == DType::kS32) {
    OPSNN_RETURN_IF_ERROR(RequireRank(call, weight, 2, 2));
    weight = UnpackedInt4(weight, &out);
  }
  if (call.function().Find("innerPrecise") >= 0 &&
      (call.Int("innerPrecise") < 0 || call.Int("innerPrecise") > 1))
    return BadValue(call, "innerPrecise", std::to_string(call.Int("innerPrecise")), "0 (exact), 1 (fast)");
  for (const char* p : {"quantScaleOptional", "quantOffsetOptional"}) {
    if (!call.Given(p)) continue;
    return Errorf(Code::kNotImplemented, "%s: %s is given; quantised outputs are not implemented", api, p);
  }
  for (const Operand* o : std::initializer_list<const Operand*>{&x, &weight})
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  const int64_t m = x.desc.dims[0], k = x.desc.dims[1], n = weight.desc.dims[1];
  if (weight.desc.dims[0] != k || m < 1 || k < 1 || n < 1) {
    return InvalidArgument(
        "%s: weight has shape %s with x of shape %s; allowed: (k, n) with (m, k), none empty", api,
        ToString(weight.desc.dims).c_str(), ToString(x.desc.dims).c_str());
  }
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "x"));
  OPSNN_ASSIGN_OR_RETURN(const int64_t size, GroupSize(call, k));
  const int64_t groups = (k + size - 1) / size;
  OPSNN_ASSIGN_OR_RETURN(const Operand scale, AsMatrix(call, Arg(call, "antiquantScale"), groups, n));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, scale, x.desc.dtype, "x"));
  Operand offset = Arg(call, "antiquantOffsetOptional");
  if (offset.given()) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, offset, x.desc.dtype, "x"));
    OPSNN_RETURN_IF_ERROR(
        RequireShape(call, offset, Arg(call, "antiquantScale").desc.dims, "the shape of antiquantScale"));
    OPSNN_ASSIGN_OR_RETURN(offset, AsMatrix(call, offset, groups, n));
  }

  // The f32 weights keep the order in which the s8 ones lie.
  const Dims s = StridesOf(weight.desc);
  const bool transposed = s[0] < s[1];
  Operand full = out.Temp(DType::kF32, transposed ? Dims{n, k} : Dims{k, n});
  if (transposed) full = Permuted(full, {1, 0});
  auto add = [&](int64_t first_group, int64_t count, int64_t rows) {
    const int64_t from = first_group * size;
    std::vector<Operand> inputs = {Groups(weight, from, count, rows), GroupRows(scale, first_group, count)};
    if (offset.given()) inputs.push_back(GroupRows(offset, first_group, count));
    out.first.push_back(
        ProgramCall(Dequantize(offset.given()), std::move(inputs), {Groups(full, from, count, rows)}));
  };
  const int64_t whole = k / size;
  if (whole > 0) add(0, whole, size);
  if (whole < groups) add(whole, 1, k - whole * size);

  out.op = op::FindOperator("MatMul");
  out.inputs = {WithDType(x, DType::kF32), full};
  out.outputs = {y};
  out.converts_output = true;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {m, n}, "the shape of the product"));
  return BindBias(call, "biasOptional", n, &out);
}

namespace {

// One value, or one per column of the product, beside the matrix as it is stored.
Result<Operand> AlongColumns(const Call& call, const char* param, int64_t n, bool transposed) {
  const Operand o = Arg(call, param);
  const Dims& d = o.desc.dims;
  const int64_t elements = NumElements(d);
  if (d.rank() > 2 || (elements != 1 && elements != n) || (d.rank() == 2 && d[0] != 1 && d[1] != 1)) {
    return InvalidArgument(
        "%s: %s has shape %s; allowed: one value, or one per column: [%lld], [1,%lld], [%lld,1]",
        call.function().api, param, ToString(d).c_str(), ll{n}, ll{n}, ll{n});
  }
  if (elements == 1) return WithView(o, {1, 1}, {0, 0});
  const int64_t step = StridesOf(o.desc)[d.rank() == 2 && d[0] == 1 ? 1 : 0];
  return transposed ? WithView(o, {n, 1}, {step, 0}) : WithView(o, {1, n}, {0, step});
}

// The weights in f32, as they are stored. Few rows take the constants as devices prepare them for these,
// deqOffset and deqScale; more rows take the plain ones.
Result<Operand> FirstVersionWeights(const Call& call, const Operand& x2, int64_t m, int64_t n,
                                    bool transposed, OpCall* out) {
  constexpr int64_t kFewRows = 64;
  const Operand full = out->Temp(DType::kF32, x2.desc.dims);
  std::vector<Operand> inputs = {x2};
  if (m <= kFewRows) {
    for (const char* param : {"diagonalMatrix", "deqOffset", "deqScale"}) {
      if (call.Given(param)) continue;
      return Errorf(Code::kNull, "%s: %s is null; it is required for at most 64 rows", call.function().api,
                    param);
    }
    OPSNN_RETURN_IF_ERROR(RequireShape(call, Arg(call, "diagonalMatrix"), {32, 32}, "a unit matrix"));
    OPSNN_ASSIGN_OR_RETURN(const Operand offset, AlongColumns(call, "deqOffset", n, transposed));
    OPSNN_ASSIGN_OR_RETURN(const Operand bits, AlongColumns(call, "deqScale", n, transposed));
    const Operand scale = out->Temp(DType::kF32, bits.desc.dims);
    out->first.push_back(CallOf("QuantParamValues", {bits}, {scale}));
    out->first.push_back(FormulaCall({x2, offset, scale}, {full}, 0, [](ProgramBuilder&, Formula& f) {
      return std::vector<Term>{(f.In(0) + f.In(1)) * f.In(2)};
    }));
    return full;
  }
  const double by = call.Double("antiquantScale"), shift = call.Double("antiquantOffset");
  for (const char* param : {"addOffset", "mulScale"}) {
    if (!call.Given(param)) continue;
    OPSNN_ASSIGN_OR_RETURN(const Operand o, AlongColumns(call, param, n, transposed));
    inputs.push_back(o);
  }
  const bool adds = call.Given("addOffset"), scales = call.Given("mulScale");
  out->first.push_back(FormulaCall(std::move(inputs), {full}, 0, [&](ProgramBuilder&, Formula& f) {
    Term w = (f.In(0) + shift) * by;
    if (adds) w = w + f.In(1);
    if (scales) w = w * f.In(adds ? 2 : 1);
    return std::vector<Term>{w};
  }));
  return full;
}

}  // namespace

// aclnnWeightQuantBatchMatmul: out = x1 ((x2 + antiquantOffset) * antiquantScale + addOffset) * mulScale +
// bias.
Status Adapt_WeightQuantBatchMatmulFirst(const Call& call, OpCall& out) {
  Operand x = Arg(call, "x1");
  const Operand x2 = Arg(call, "x2"), y = Arg(call, "out"), bias = Arg(call, "bias");
  for (const Operand* o : std::initializer_list<const Operand*>{&x, &x2})
    OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  const bool transposed = call.Int("transposeX2") != 0;
  if (call.Int("transposeX1") != 0) x = Permuted(x, {1, 0});
  const int64_t m = x.desc.dims[0], k = x.desc.dims[1], n = x2.desc.dims[transposed ? 0 : 1];
  if (x2.desc.dims[transposed ? 1 : 0] != k || m < 1 || k < 1 || n < 1) {
    return InvalidArgument("%s: x2 has shape %s with x1 of shape %s; allowed: (k, n) with (m, k), none empty",
                           call.function().api, ToString(x2.desc.dims).c_str(),
                           ToString(Arg(call, "x1").desc.dims).c_str());
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {m, n}, "the shape of the product"));
  if (bias.given()) OPSNN_RETURN_IF_ERROR(RequireShape(call, bias, {n}, "one value per column"));
  OPSNN_ASSIGN_OR_RETURN(Operand full, FirstVersionWeights(call, x2, m, n, transposed, &out));
  if (transposed) full = Permuted(full, {1, 0});
  out.op = op::FindOperator("MatMul");
  out.inputs = {WithDType(x, DType::kF32), full};
  out.outputs = {y};
  out.converts_output = true;
  return BindBias(call, "bias", n, &out);
}

// The layout that products like best is row-major, so there is nothing to rearrange.
Status Adapt_TransMatmulWeight(const Call& call, OpCall& out) {
  const Operand w = Arg(call, "mmWeightRef");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, w, 2, 6));
  out.op = op::FindOperator("Identity");
  out.inputs = {w};
  out.outputs = {w};
  out.in_place = true;
  return OkStatus();
}

}  // namespace opsnn::capi
