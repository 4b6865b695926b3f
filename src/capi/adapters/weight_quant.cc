// aclnnWeightQuantBatchMatmulV2, V3 and Nz: y = x (weight + offset) * scale + bias, with s8 weights that are
// brought to f32 before one f32 product. Scales are given per tensor, per column or per group of rows and
// column.
#include <algorithm>

#include "capi/adapters/common.h"
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

Status BindBias(const Call& call, int64_t n, OpCall* out) {
  Operand bias = Arg(call, "biasOptional");
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
  return BindBias(call, n, &out);
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
