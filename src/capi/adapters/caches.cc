// Caches that grow: updates of each batch go to where its index says along an axis. ScatterUpdate,
// ScatterList and QuantScatter, which stores updates as integers.
#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

// Where each update goes: data[b, .., start[b] + s, ..] = updates[b, .., s, ..] along `axis`; indices hold
// start, or pairs of batch and start.
struct Growth {
  Operand data, updates, indices;
  int axis = 0;
};

// indices[.., column] as s64, one per batch.
Operand Column(const Operand& indices, int64_t column) {
  if (indices.desc.dims.rank() == 1) return indices;
  Operand o = WithView(indices, {indices.desc.dims[0]}, {StridesOf(indices.desc)[0]});
  o.offset = indices.offset + column * StridesOf(indices.desc)[1];
  return o;
}

Status CheckGrowth(const Call& call, const Growth& g, bool all_batches) {
  const int rank = g.data.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, g.updates, rank, rank));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, g.indices));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, g.indices, 1, 2));
  const Dims &data = g.data.desc.dims, &updates = g.updates.desc.dims;
  Dims want = data;
  want[g.axis] = updates[g.axis];
  const bool pairs = g.indices.desc.dims.rank() == 2;
  if ((pairs || !all_batches) && updates[0] <= data[0]) want[0] = updates[0];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, g.updates, want, "that of the data but along the axis"));
  return RequireShape(call, g.indices, pairs ? Dims{want[0], 2} : Dims{want[0]}, "one place per batch");
}

// Rows of s64: start + 0, 1, ..
Result<Operand> Places(const Call& call, const Operand& starts, int64_t steps, OpCall* out) {
  OPSNN_ASSIGN_OR_RETURN(const auto count, NewConstant(call, DType::kS64, {steps}));
  for (int64_t i = 0; i < steps; ++i) count->as<int64_t>()[i] = i;
  ProgramBuilder b;
  const ComputeType type = ComputeTypeOf(starts.desc.dtype);
  SlotId offset = b.Input(type), step = b.Input(ComputeType::kS64);
  if (type != ComputeType::kS64) offset = b.Convert(offset, ComputeType::kS64);
  b.Output(b.Binary(StageOp::kAdd, offset, step));
  const int64_t n = starts.desc.dims[0];
  const Operand places = out->Temp(DType::kS64, {n, steps});
  const Operand column = WithView(starts, {n, 1}, {StridesOf(starts.desc)[0], 0});
  out->first.push_back(ProgramCall(std::move(b).Build(), {column, Constant(count)}, {places}));
  return places;
}

// The call that writes the updates; not yet in `out`.
Result<OpCall> Grow(const Call& call, const Growth& g, OpCall* out) {
  const Dims& dims = g.updates.desc.dims;
  const int64_t steps = dims[g.axis];
  const bool pairs = g.indices.desc.dims.rank() == 2;
  OPSNN_ASSIGN_OR_RETURN(const Operand places, Places(call, Column(g.indices, 1), steps, out));
  if (!pairs) {
    Dims strides = Dims::Filled(dims.rank(), 0);
    strides[0] = steps, strides[g.axis] = 1;
    Operand data = g.data;  // batches behind those of the updates stay
    Dims own = data.desc.dims;
    own[0] = dims[0];
    data = WithView(data, own, StridesOf(data.desc));
    OpCall c = Along("ScatterElements", g.axis, {data, WithView(places, dims, strides), g.updates}, data);
    c.in_place = true;
    return c;
  }
  // [batch, axis, rest..] and tuples of (batch, place).
  std::vector<int> order = {0, g.axis};
  for (int i = 1; i < dims.rank(); ++i)
    if (i != g.axis) order.push_back(i);
  const Operand tuples = out->Temp(DType::kS64, {dims[0], steps, 2});
  const Dims shape = {dims[0], steps};
  for (int i = 0; i < 2; ++i) {
    Operand to = WithView(tuples, shape, {2 * steps, 2});
    to.offset = i;
    const Operand batch = Column(g.indices, 0);
    const Operand from = i == 0 ? WithView(batch, shape, {StridesOf(batch.desc)[0], 0}) : places;
    out->first.push_back(CallOf("Identity", {WithDType(from, DType::kS64)}, {to}));
  }
  const Operand data = Permuted(g.data, order);
  OpCall c = CallOf("ScatterND", {data, tuples, Permuted(g.updates, order)}, {data});
  c.in_place = true;
  return c;
}

}  // namespace

Status Adapt_ScatterUpdate(const Call& call, OpCall& out) {
  Growth g = {Arg(call, "data"), Arg(call, "updates"), AtLeast1d(Arg(call, "indices"))};
  const int rank = g.data.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, g.data, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, g.updates, g.data.desc.dtype, "data"));
  OPSNN_ASSIGN_OR_RETURN(g.axis, DimOf(call, "axis", call.Int("axis"), rank));
  if (g.axis == 0)
    return BadValue(call, "axis", std::to_string(call.Int("axis")), "a dim other than the first");
  OPSNN_RETURN_IF_ERROR(CheckGrowth(call, g, true));
  OPSNN_ASSIGN_OR_RETURN(OpCall last, Grow(call, g, &out));
  Take(std::move(last), &out);
  return OkStatus();
}

// round(updates / scale + zero point), then as ScatterUpdate.
Status Adapt_QuantScatter(const Call& call, OpCall& out) {
  Growth g = {Arg(call, "selfRef"), Arg(call, "updates"), AtLeast1d(Arg(call, "indices"))};
  const Operand scales = Arg(call, "quantScales"), zeros = Arg(call, "quantZeroPoints");
  const int rank = g.data.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, g.data, 3, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(g.axis, DimOf(call, "axis", call.Int("axis"), rank));
  OPSNN_ASSIGN_OR_RETURN(const int by, DimOf(call, "quantAxis", call.Int("quantAxis"), rank));
  if (g.axis == 0 || g.axis == rank - 1) {
    return BadValue(call, "axis", std::to_string(call.Int("axis")), "a dim between the first and the last");
  }
  if (by != rank - 1)
    return BadValue(call, "quantAxis", std::to_string(call.Int("quantAxis")), "the last dim");
  if (call.Int("reduction") != 1)
    return BadValue(call, "reduction", std::to_string(call.Int("reduction")), "1 (update)");
  if (call.function().Find("roundMode") >= 0) {
    const auto* mode = static_cast<const char*>(call.arguments()[call.Index("roundMode")].raw.p);
    if (std::string_view(mode) != "rint") return BadValue(call, "roundMode", mode, "rint");
  }
  OPSNN_RETURN_IF_ERROR(CheckGrowth(call, g, false));
  const int64_t size = g.updates.desc.dims.back();
  std::vector<Operand> inputs = {g.updates};
  for (const Operand* o : {&scales, &zeros}) {
    if (!o->given()) continue;
    if (NumElements(o->desc.dims) != size) {
      return InvalidArgument("%s: %s has shape %s; allowed: %lld elements, the size of quantAxis",
                             call.function().api, NameOf(call, *o).c_str(), ToString(o->desc.dims).c_str(),
                             static_cast<long long>(size));
    }
    inputs.push_back(Reshaped(Contiguously(*o, &out), {size}));
  }
  const Operand stored = out.Temp(DType::kS8, g.updates.desc.dims);
  out.first.push_back(FormulaCall(inputs, {stored}, 0, [&](ProgramBuilder&, Formula& f) {
    Term v = f.In(0) / f.In(1);
    if (zeros.given()) v = v + f.In(2);
    return std::vector<Term>{Clip(Round(v), -128, 127)};
  }));
  g.updates = stored;
  OPSNN_ASSIGN_OR_RETURN(OpCall last, Grow(call, g, &out));
  Take(std::move(last), &out);
  return OkStatus();
}

// Tensor b of the list takes updates[b]; mask leaves tensors out.
Status Adapt_ScatterList(const Call& call, OpCall& out) {
  const std::vector<Operand> vars = Members(call, "varRef");
  const Operand updates = Arg(call, "updates"), indices = AtLeast1d(Arg(call, "indice")),
                mask = Arg(call, "maskOptional");
  if (vars.empty()) return BadValue(call, "varRef", "an empty list", "one tensor or more");
  const auto count = static_cast<int64_t>(vars.size());
  const Argument& reduce = call.arguments()[call.Index("reduceOptional")];
  if (reduce.given && reduce.raw.p && std::string_view(static_cast<const char*>(reduce.raw.p)) != "update") {
    return BadValue(call, "reduceOptional", static_cast<const char*>(reduce.raw.p), "update");
  }
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  const int rank = vars[0].desc.dims.rank() + 1;
  if (rank > kMaxRank || rank < 2) OPSNN_RETURN_IF_ERROR(RequireRank(call, vars[0], 1, kMaxRank - 1));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, updates, rank, rank));
  OPSNN_ASSIGN_OR_RETURN(const int axis, DimOf(call, "axis", call.Int("axis"), rank));
  if (axis == 0)
    return BadValue(call, "axis", std::to_string(call.Int("axis")), "a dim of the tensors: not the first");
  OPSNN_RETURN_IF_ERROR(RequireShape(call, mask, {count}, "one value per tensor"));
  Dims want = vars[0].desc.dims;
  want.insert(0, count);
  want[axis] = updates.desc.dims[axis];
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, updates, want, "one part per tensor, as large but along the axis"));
  const bool lengths = indices.desc.dims.rank() == 2;
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, indices, lengths ? Dims{count, 2} : Dims{count}, "one place per tensor"));
  if (lengths || mask.given()) {
    return Errorf(Code::kNotImplemented, "%s: lengths of updates and masks of tensors are not here",
                  call.function().api);
  }
  std::vector<OpCall> calls;
  OPSNN_ASSIGN_OR_RETURN(const Operand places, Places(call, indices, want[axis], &out));
  Dims dims = want, strides = StridesOf(updates.desc), at = Dims::Filled(rank - 1, 0);
  dims.erase(0), strides.erase(0);
  at[axis - 1] = 1;
  for (int64_t i = 0; i < count; ++i) {
    const Operand& var = vars[static_cast<size_t>(i)];
    OPSNN_RETURN_IF_ERROR(RequireDType(call, var, updates.desc.dtype, "updates"));
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, var, vars[0]));
    Operand from = WithView(updates, dims, strides), to = WithView(places, dims, at);
    from.offset = updates.offset + i * StridesOf(updates.desc)[0];
    to.offset = i * want[axis];
    calls.push_back(Along("ScatterElements", axis - 1, {var, to, from}, var));
    calls.back().in_place = true;
  }
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
