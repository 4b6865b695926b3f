// Tables and orders: Embedding, its bags and its gradient, Topk, Kthvalue, Median, Flip, Bucketize.
#include <cmath>
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

// Bags of rows of a table. Indices may come in two dims, as one row after the other.
Status Adapt_EmbeddingBag(const Call& call, OpCall& out) {
  const Operand weight = Arg(call, "weight"), samples = Arg(call, "perSampleWeights"),
                y = Arg(call, "output");
  Operand indices = AtLeast1d(Arg(call, "indices"));
  const Operand offsets = AtLeast1d(Arg(call, "offsets"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, weight, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, indices, 1, 2));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, offsets, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, offsets));
  const bool last = call.Int("includeLastOffset") != 0, max = call.Int("mode") != 0 && call.Int("mode") != 1;
  if (last && indices.desc.dims.rank() == 2)
    return BadValue(call, "includeLastOffset", "true", "false for indices of two dims");
  if (last && offsets.desc.dims[0] == 0)
    return BadValue(call, "offsets", "empty", "the last offset at least");
  for (const Operand* o : {&samples, &y})
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, weight.desc.dtype, "weight"));
  const int64_t count = NumElements(indices.desc.dims), bags = offsets.desc.dims[0] - last,
                width = weight.desc.dims[1];
  std::vector<Operand> inputs = {weight, indices, WithDType(offsets, DType::kS64)};
  if (samples.given()) {
    if (call.Int("mode") != 0)
      return BadValue(call, "perSampleWeights", "given", "null but for mode 0, sums");
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, samples, indices));
    inputs.push_back(samples);
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {bags, width}, "one row per bag"));
  const Operand of = Arg(call, "offset2bag"), size = Arg(call, "bagSize"), from = Arg(call, "maxIndices");
  // Products differ in what they write of these: an empty tensor asks for nothing.
  const auto wanted = [&](const Operand& o, const Dims& dims, const char* what) -> Result<Operand> {
    OPSNN_RETURN_IF_ERROR(RequireIndex(call, o));
    if (NumElements(o.desc.dims) == 0 && NumElements(dims) > 0) return out.Temp(DType::kS64, dims);
    OPSNN_RETURN_IF_ERROR(RequireShape(call, o, dims, what));
    return WithDType(o, DType::kS64);
  };
  OPSNN_ASSIGN_OR_RETURN(const Operand bag_of, wanted(of, {count}, "the bag of every index"));
  OPSNN_ASSIGN_OR_RETURN(const Operand sizes, wanted(size, {bags}, "one size per bag"));
  OPSNN_ASSIGN_OR_RETURN(const Operand chosen,
                         wanted(from, max ? Dims{bags, width} : Dims{bags}, "one row per maximum"));
  if (indices.desc.dims.rank() == 2) {
    for (Operand* o : {&inputs[1], samples.given() ? &inputs[3] : &inputs[1]})
      if (o->desc.dims.rank() == 2) *o = Reshaped(Contiguously(*o, &out), {count});
  }
  inputs[1] = WithDType(inputs[1], DType::kS64);
  Take(CallOf("EmbeddingBag", std::move(inputs), {y, bag_of, sizes, chosen}), &out);
  out.attrs.Set("mode", std::string(max ? "max" : call.Int("mode") == 1 ? "mean" : "sum"));
  out.attrs.Set("include_last_offset", int64_t{last});
  out.attrs.Set("padding_index", call.Int("paddingIdx"));
  return OkStatus();
}

Status Adapt_JaggedPermute(const Call& call, OpCall& out) {
  const Operand y = Arg(call, "outputPermuteOut");
  std::vector<Operand> inputs;
  for (const char* name : {"permute", "inputOffset", "outputOffset"}) {
    inputs.push_back(Arg(call, name));
    OPSNN_RETURN_IF_ERROR(RequireIndex(call, inputs.back()));
    OPSNN_RETURN_IF_ERROR(RequireRank(call, inputs.back(), 1, 1));
    OPSNN_RETURN_IF_ERROR(RequireDType(call, inputs.back(), y.desc.dtype, "outputPermuteOut"));
    inputs.back() = WithDType(inputs.back(), DType::kS64);
  }
  const int64_t size = call.Int("outputSize");
  if (size < 0) return BadValue(call, "outputSize", std::to_string(size), "0 or more");
  for (size_t i : {size_t{1}, size_t{2}}) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, inputs[i], {inputs[0].desc.dims[0] + 1},
                                       "one offset more than permute has entries"));
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {size}, "outputSize"));
  Take(CallOf("JaggedPermute", std::move(inputs), {WithDType(y, DType::kS64)}), &out);
  out.attrs.Set("size", size);
  return OkStatus();
}

// The lower of two middle elements; Median and NanMedian of everything, or along a dim with its position.
Status Adapt_Median(const Call& call, OpCall& out) {
  const std::string_view api = call.function().api;
  const bool by_dim = call.function().Find("dim") >= 0;
  Operand self = Arg(call, "self"), values = Arg(call, FirstOf(call, {"valuesOut", "out"}));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, values, self.desc.dtype, "self"));
  std::vector<Operand> outputs = {values};
  int64_t axis = 0;
  if (by_dim) {
    const Operand indices = Arg(call, "indicesOut");
    const int rank = self.desc.dims.rank();
    OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
    axis = dim;
    const Dims want = rank == 0 ? Dims() : ReducedDims(self.desc.dims, {dim}, call.Int("keepDim") != 0);
    OPSNN_RETURN_IF_ERROR(RequireDType(call, indices, DType::kS64, "positions"));
    outputs.push_back(indices);
    for (Operand& o : outputs) {
      OPSNN_RETURN_IF_ERROR(RequireShape(call, o, want, "the shape of the result"));
      if (o.desc.dims.rank() == std::max(rank, 1)) continue;
      Dims dims = o.desc.dims, strides = StridesOf(o.desc);
      dims.insert(dim, 1), strides.insert(dim, 0);
      o = WithView(o, dims, strides);
    }
    self = AtLeast1d(self);
  } else {
    if (NumElements(values.desc.dims) != 1 || values.desc.dims.rank() > 1) {
      return BadValue(call, NameOf(call, values).c_str(), "of shape " + ToString(values.desc.dims),
                      "one element");
    }
    outputs[0] = WithView(values, {1}, {1});
    if (NumElements(self.desc.dims) == 0) {  // the median of nothing
      Take(
          CallOf("Identity",
                 {BroadcastView(ConstantFloat(IsFloat(values.desc.dtype) ? NAN : 0, values.desc.dtype), {1})},
                 outputs),
          &out);
      return OkStatus();
    }
    self = Reshaped(Contiguously(self, &out), {NumElements(self.desc.dims)});
  }
  Take(CallOf("Median", {self}, std::move(outputs)), &out);
  out.attrs.Set("axis", axis);
  out.attrs.Set("ignore_nan", int64_t{api.find("Nan") != std::string_view::npos});
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

}  // namespace opsnn::capi
