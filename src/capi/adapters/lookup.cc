// Tables and orders: Embedding and its gradient, indexing by lists of tensors, Topk, Kthvalue, Flip,
// Bucketize.
#include <limits>

#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
Status Adapt_Embedding(const Call& call, OpCall& out) {
  const Operand weight = Arg(call, "weight"), indices = Arg(call, "indices"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, weight, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, weight.desc.dtype, "weight"));
  Take(CallOf("Gather", {weight, indices}, {y}), &out);
  out.attrs.Set("axis", int64_t{0});
  return OkStatus();
}

// Rows of grad summed up by their index, in f32.
Status Adapt_EmbeddingGrad(const Call& call, OpCall& out) {
  const Operand grad = Arg(call, "grad"), indices = Arg(call, "indices"), y = Arg(call, "out");
  const int rank = grad.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, grad, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, indices, rank - 1, rank - 1));
  const int64_t width = grad.desc.dims.back(), rows = call.Int("numWeights"),
                padding = call.Int("paddingIdx");
  Dims want = indices.desc.dims;
  want.push_back(width);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, grad, want, "that of indices and the width of a row"));
  if (rows < 0) return BadValue(call, "numWeights", std::to_string(rows), "0 or more");
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {rows, width}, "numWeights rows"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, grad.desc.dtype, "grad"));
  const Operand tuples = AsTuples(indices),
                zero = BroadcastView(ConstantFloat(0, DType::kF32), {rows, width});
  Operand each = WithDType(grad, DType::kF32);
  const bool pads = padding >= 0 && padding < rows, by_count = call.Int("scaleGradByFreq") != 0;
  if (pads || by_count) {
    const Operand column = AsTuples(indices);
    std::vector<Operand> inputs = {grad, column};
    if (by_count) {  // how often each index occurs, at each of its places
      const Operand ones = BroadcastView(ConstantFloat(1, DType::kF32), indices.desc.dims);
      const Operand counts = out.Temp(DType::kF32, {rows}), own = out.Temp(DType::kF32, indices.desc.dims);
      OpCall count =
          CallOf("ScatterND", {BroadcastView(ConstantFloat(0, DType::kF32), {rows}), tuples, ones}, {counts});
      count.attrs.Set("reduction", std::string("add"));
      out.first.push_back(std::move(count));
      OpCall look = CallOf("Gather", {counts, indices}, {own});
      look.attrs.Set("axis", int64_t{0});
      out.first.push_back(std::move(look));
      inputs.push_back(AsTuples(own));
    }
    const ComputeType type = ComputeTypeOf(indices.desc.dtype);
    ProgramBuilder b;
    const SlotId g = b.Input(), i = b.Input(type);
    SlotId r = by_count ? b.Binary(StageOp::kDiv, g, b.Input()) : g;
    if (pads) {
      const SlotId is = b.Binary(StageOp::kEqual, i, b.Const(static_cast<double>(padding), type));
      r = b.Ternary(StageOp::kSelect, b.Convert(is, ComputeType::kF32), b.Const(0), r);
    }
    b.Output(r);
    each = out.Temp(DType::kF32, grad.desc.dims);
    out.first.push_back(ProgramCall(std::move(b).Build(), std::move(inputs), {each}));
  }
  Take(CallOf("ScatterND", {zero, tuples, each}, {WithDType(y, DType::kF32)}), &out);
  out.attrs.Set("reduction", std::string("add"));
  return OkStatus();
}

namespace {

// The index tensors of a list as tuples [shape.., k]; they belong to the first k dims.
Result<Operand> StackIndices(const Call& call, const Operand& self, Dims* shape, OpCall* out) {
  const int p = call.Index("indices");
  const Argument& a = call.arguments()[p];
  const int k = a.num_tensors;
  if (k < 1 || k > self.desc.dims.rank()) {
    return BadValue(call, "indices", StrFormat("a list of %d", k),
                    StrFormat("1 to %d tensors", self.desc.dims.rank()));
  }
  std::vector<Operand> all;
  for (int t = a.first_tensor; t < a.first_tensor + k; ++t) {
    all.push_back({t, call.Desc(t)});
    if (all.back().desc.dtype == DType::kBool) {
      return Errorf(Code::kNotImplemented, "%s: masks as indices are not here; use positions",
                    call.function().api);
    }
    OPSNN_RETURN_IF_ERROR(RequireIndex(call, all.back()));
    const auto both = BroadcastDims(*shape, all.back().desc.dims);
    if (!both.ok() || both->rank() == kMaxRank) {
      return InvalidArgument("%s: %s has shape %s; allowed: shapes that broadcast with %s",
                             call.function().api, NameOf(call, all.back()).c_str(),
                             ToString(all.back().desc.dims).c_str(), ToString(*shape).c_str());
    }
    *shape = *both;
  }
  Dims dims = *shape;
  dims.push_back(k);
  const Operand tuples = out->Temp(DType::kS64, dims);
  for (int i = 0; i < k; ++i) {
    Operand column = tuples;
    Dims strides = ContiguousStrides(dims);
    strides.resize(shape->rank());
    column = WithView(column, *shape, strides);
    column.offset = i;
    out->first.push_back(
        CallOf("Identity", {WithDType(BroadcastView(all[i], *shape), DType::kS64)}, {column}));
  }
  return tuples;
}

}  // namespace

Status Adapt_Index(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  Dims shape;
  OPSNN_ASSIGN_OR_RETURN(const Operand tuples, StackIndices(call, self, &shape, &out));
  Take(CallOf("GatherND", {self, tuples}, {y}), &out);
  return OkStatus();
}

Status Adapt_IndexPut(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "selfRef"), values = Arg(call, "values");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, values, self.desc.dtype, "selfRef"));
  Dims shape;
  OPSNN_ASSIGN_OR_RETURN(const Operand tuples, StackIndices(call, self, &shape, &out));
  for (int i = static_cast<int>(tuples.desc.dims.back()); i < self.desc.dims.rank(); ++i)
    shape.push_back(self.desc.dims[i]);
  const auto both = BroadcastDims(values.desc.dims, shape);
  if (!both.ok() || !(*both == shape)) {
    return InvalidArgument(
        "%s: values has shape %s; allowed: shapes that broadcast to %s, what the indices name",
        call.function().api, ToString(values.desc.dims).c_str(), ToString(shape).c_str());
  }
  Take(CallOf("ScatterND", {self, tuples, BroadcastView(values, shape)}, {self}), &out);
  if (call.Int("accumulate") != 0) out.attrs.Set("reduction", std::string("add"));
  out.in_place = true;
  return OkStatus();
}

Status Adapt_Topk(const Call& call, OpCall& out) {
  const Operand self = AtLeast1d(Arg(call, "self"));
  const Operand values = AtLeast1d(Arg(call, "valuesOut")), indices = AtLeast1d(Arg(call, "indicesOut"));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  const int64_t k = call.Int("k"), size = self.desc.dims[dim];
  if (k < 0 || k > size) {
    return BadValue(call, "k", std::to_string(k),
                    StrFormat("0 to %lld, the size of dim %d", static_cast<long long>(size), dim));
  }
  OPSNN_RETURN_IF_ERROR(RequireDType(call, values, self.desc.dtype, "self"));
  Take(CallOf("TopK", {self, ConstantInt(k)}, {values, indices}), &out);
  out.attrs.Set("axis", int64_t{dim});
  out.attrs.Set("largest", int64_t{call.Int("largest") != 0});
  out.attrs.Set("sorted", int64_t{1});
  return OkStatus();
}

// The k-th smallest: the last of the k smallest in their order.
Status Adapt_Kthvalue(const Call& call, OpCall& out) {
  const Operand self = AtLeast1d(Arg(call, "self"));
  const bool scalar = Arg(call, "self").desc.dims.rank() == 0;
  const Operand values = Arg(call, "valuesOut"), indices = Arg(call, "indicesOut");
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  const int64_t k = call.Int("k");
  if (k < 1 || k > self.desc.dims[dim]) {
    return BadValue(
        call, "k", std::to_string(k),
        StrFormat("1 to %lld, the size of dim %d", static_cast<long long>(self.desc.dims[dim]), dim));
  }
  const bool keep = call.Int("keepdim") != 0;
  const Dims want = scalar ? Dims() : ReducedDims(self.desc.dims, {dim}, keep);
  for (const Operand* o : {&values, &indices})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, want, "the shape of the result"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, values, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, indices, DType::kS64, "positions"));
  Dims most = self.desc.dims;
  most[dim] = k;
  const Operand all = out.Temp(self.desc.dtype, most), places = out.Temp(DType::kS64, most);
  OpCall top = CallOf("TopK", {self, ConstantInt(k)}, {all, places});
  top.attrs.Set("axis", int64_t{dim});
  top.attrs.Set("largest", int64_t{0});
  top.attrs.Set("sorted", int64_t{1});
  out.first.push_back(std::move(top));
  auto last = [&](const Operand& o) {
    Dims dims = most, strides = ContiguousStrides(most);
    Operand slice = o;
    slice.offset = (k - 1) * strides[dim];
    dims[dim] = 1;
    if (want.rank() < dims.rank()) dims.erase(dim), strides.erase(dim);
    return WithView(slice, dims, strides);
  };
  out.first.push_back(CallOf("Identity", {last(places)}, {indices}));
  Take(CallOf("Identity", {last(all)}, {values}), &out);
  return OkStatus();
}

Status Adapt_Flip(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const auto dims, DimsOf(call, "dims", self.desc.dims.rank()));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  if (dims.empty() || self.desc.dims.rank() == 0) {
    Take(CallOf("Identity", {self}, {y}), &out);
    return OkStatus();
  }
  const size_t n = dims.size();
  const Operand starts = ConstantInts(std::vector<int64_t>(n, -1)), steps = starts;
  const Operand ends = ConstantInts(std::vector<int64_t>(n, std::numeric_limits<int64_t>::min()));
  Take(CallOf("Slice", {self, starts, ends, ConstantInts(dims), steps}, {y}), &out);
  return OkStatus();
}

// Between which boundaries each element lies: how many of them are below it.
Status Adapt_Bucketize(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), boundaries = Arg(call, "boundaries"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, boundaries, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 0, kMaxRank - 1));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(
      RequireDType(call, y, call.Int("outInt32") != 0 ? DType::kS32 : DType::kS64, "outInt32"));
  const bool right = call.Int("right") != 0;
  if (boundaries.desc.dims[0] == 0) {
    Take(CallOf("Identity", {BroadcastView(ConstantFloat(0, y.desc.dtype), y.desc.dims)}, {y}), &out);
    return OkStatus();
  }
  const std::vector<DType> types = {self.desc.dtype, boundaries.desc.dtype};
  const ComputeType type = ComputeTypeOf(op::PromoteTypes(types));
  ProgramBuilder b;
  SlotId x = b.Input(ComputeTypeOf(types[0])), edge = b.Input(ComputeTypeOf(types[1]));
  if (ComputeTypeOf(types[0]) != type) x = b.Convert(x, type);
  if (ComputeTypeOf(types[1]) != type) edge = b.Convert(edge, type);
  // A NaN is beyond all boundaries.
  const SlotId before =
      b.Unary(StageOp::kNot, b.Binary(right ? StageOp::kLess : StageOp::kLessEqual, x, edge));
  b.Output(b.Unary(StageOp::kRowSum, b.Convert(before, ComputeType::kS32)));
  auto column = [](const Operand& o) {
    Dims dims = o.desc.dims, strides = StridesOf(o.desc);
    dims.push_back(1), strides.push_back(0);
    return WithView(o, dims, strides);
  };
  Take(ProgramCall(std::move(b).Build(), {column(self), boundaries}, {column(y)}, 1), &out);
  return OkStatus();
}

// data[b, .., indices[b] + s, ..] = updates[b, .., s, ..] along the axis: a cache that grows.
Status Adapt_ScatterUpdate(const Call& call, OpCall& out) {
  const Operand data = Arg(call, "data"), updates = Arg(call, "updates");
  const Operand indices = AtLeast1d(Arg(call, "indices"));
  const int rank = data.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, data, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, updates, rank, rank));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, updates, data.desc.dtype, "data"));
  OPSNN_ASSIGN_OR_RETURN(const int axis, DimOf(call, "axis", call.Int("axis"), rank));
  if (axis == 0)
    return BadValue(call, "axis", std::to_string(call.Int("axis")), "a dim other than the first");
  if (indices.desc.dims.rank() != 1) {
    return Errorf(Code::kNotImplemented, "%s: indices of %d dims are not here; one offset per batch is",
                  call.function().api, indices.desc.dims.rank());
  }
  Dims want = data.desc.dims;
  want[axis] = updates.desc.dims[axis];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, updates, want, "that of data but along the axis"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, indices, {data.desc.dims[0]}, "one offset per batch"));
  const int64_t steps = want[axis];
  OPSNN_ASSIGN_OR_RETURN(const auto count, NewConstant(call, DType::kS64, {steps}));
  for (int64_t i = 0; i < steps; ++i) count->as<int64_t>()[i] = i;
  ProgramBuilder b;
  const ComputeType type = ComputeTypeOf(indices.desc.dtype);
  SlotId offset = b.Input(type), step = b.Input(ComputeType::kS64);
  if (type != ComputeType::kS64) offset = b.Convert(offset, ComputeType::kS64);
  b.Output(b.Binary(StageOp::kAdd, offset, step));
  const Operand places = out.Temp(DType::kS64, {want[0], steps});
  const Operand column = WithView(indices, {want[0], 1}, {StridesOf(indices.desc)[0], 0});
  out.first.push_back(ProgramCall(std::move(b).Build(), {column, Constant(count)}, {places}));
  Dims strides = Dims::Filled(rank, 0);
  strides[0] = steps, strides[axis] = 1;
  Take(CallOf("ScatterElements", {data, WithView(places, want, strides), updates}, {data}), &out);
  out.attrs.Set("axis", int64_t{axis});
  out.in_place = true;
  return OkStatus();
}

}  // namespace opsnn::capi
