// Gathering and scattering by index tensors. Duplicate indices add up in the order of the indices; indices
// out of range are errors of the run, and nothing is written then.
#include "capi/adapters/common.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// `last` writes the contiguous `to`, which stands for y.
Status FinishDense(OpCall last, const Operand& to, const Operand& y, OpCall* out) {
  if (to.temp < 0) {
    Take(std::move(last), out);
    return OkStatus();
  }
  out->first.push_back(std::move(last));
  Take(CallOf("Identity", {to}, {y}), out);
  return OkStatus();
}

Operand Leading(const Operand& o, const Dims& dims) { return WithView(o, dims, StridesOf(o.desc)); }

}  // namespace

Status Adapt_GatherElements(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), index = Arg(call, "index"), y = Arg(call, "out");
  const int rank = self.desc.dims.rank();
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, index));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, index));
  Take(CallOf("GatherElements", {AtLeast1d(self), AtLeast1d(index)}, {AtLeast1d(y)}), &out);
  out.attrs.Set("axis", int64_t{dim});
  return OkStatus();
}

Status Adapt_GatherNd(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), indices = Arg(call, "indices"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, indices, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  Take(CallOf("GatherND", {self, indices}, {y}), &out);
  return OkStatus();
}

// With batch dims each batch is indexed by its own indices.
Status Adapt_GatherV3(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), index = AtLeast1d(Arg(call, "index")), y = Arg(call, "out");
  const int rank = self.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, index));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, index, 1, kMaxRank - 1));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  const int64_t mode = call.Int("mode"), batch = call.Int("batchDims");
  if (mode < 0 || mode > 2) return BadValue(call, "mode", std::to_string(mode), "0, 1, 2");
  if (batch < 0 || batch > dim || batch > index.desc.dims.rank()) {
    return BadValue(call, "batchDims", std::to_string(batch),
                    StrFormat("0 to %d, at most the rank of index", dim));
  }
  const int b = static_cast<int>(batch), r = index.desc.dims.rank();
  for (int i = 0; i < b; ++i) {
    if (index.desc.dims[i] == self.desc.dims[i]) continue;
    return InvalidArgument(
        "%s: index has shape %s; allowed: %lld first dims as those of self, whose shape is %s",
        call.function().api, ToString(index.desc.dims).c_str(), ll{batch}, ToString(self.desc.dims).c_str());
  }
  if (b == 0) {
    Take(CallOf("Gather", {self, index}, {y}), &out);
    out.attrs.Set("axis", int64_t{dim});
    return OkStatus();
  }
  Dims want;
  for (int i = 0; i < dim; ++i) want.push_back(self.desc.dims[i]);
  for (int i = b; i < r; ++i) want.push_back(index.desc.dims[i]);
  for (int i = dim + 1; i < rank; ++i) want.push_back(self.desc.dims[i]);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "the shape of the result"));
  // The dim behind the batch on both sides: [batch, dim, rest] and [batch, index, rest].
  std::vector<int> from, to;
  for (int i = 0; i < b; ++i) from.push_back(i), to.push_back(i);
  from.push_back(dim);
  for (int i = 0; i < r - b; ++i) to.push_back(dim + i);
  for (int i = b; i < rank; ++i) {
    if (i == dim) continue;
    from.push_back(i);
    to.push_back(i < dim ? i : i - 1 + r - b);
  }
  Take(CallOf("GatherND", {Permuted(self, from), AsTuples(index)}, {Permuted(y, to)}), &out);
  out.attrs.Set("batch_dims", batch);
  return OkStatus();
}

// self as one row of its elements.
Status Adapt_Take(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), index = Arg(call, "index"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, index));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, index));
  const Operand flat = Reshaped(Contiguously(self, &out), {NumElements(self.desc.dims)});
  Take(CallOf("Gather", {flat, index}, {y}), &out);
  out.attrs.Set("axis", int64_t{0});
  return OkStatus();
}

Status Adapt_Put(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "selfRef"), index = Arg(call, "index"), source = Arg(call, "source");
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, index));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, source, self.desc.dtype, "selfRef"));
  const int64_t count = NumElements(index.desc.dims);
  if (NumElements(source.desc.dims) != count) {
    return InvalidArgument("%s: source has shape %s; allowed: %lld elements, as index has",
                           call.function().api, ToString(source.desc.dims).c_str(), ll{count});
  }
  const Operand at = Contiguously(index, &out), values = Contiguously(source, &out),
                data = Contiguously(self, &out);
  const Dims flat = {NumElements(self.desc.dims)};
  OpCall put =
      CallOf("ScatterElements", {Reshaped(data, flat), Reshaped(at, {count}), Reshaped(values, {count})},
             {Reshaped(data, flat)});
  put.attrs.Set("axis", int64_t{0});
  if (call.Int("accumulate") != 0) put.attrs.Set("reduction", std::string("add"));
  put.in_place = true;
  return FinishDense(std::move(put), data, self, &out);
}

namespace {

// y = self with src at index along dim, under a reduction.
Status BindScatter(const Call& call, const Operand& src, const char* reduction, OpCall* out) {
  const Operand self = Arg(call, {"self", "selfRef"}), y = Arg(call, {"out", "selfRef"});
  const Operand index = Arg(call, "index");
  const int rank = self.desc.dims.rank();
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, index));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, src, self.desc.dtype, "self"));
  const Operand data = AtLeast1d(self), at = AtLeast1d(index), values = AtLeast1d(src);
  bool fits = at.desc.dims.rank() == data.desc.dims.rank() && values.desc.dims.rank() == at.desc.dims.rank();
  for (int i = 0; fits && i < at.desc.dims.rank(); ++i) fits = at.desc.dims[i] <= values.desc.dims[i];
  if (!fits) {
    return InvalidArgument(
        "%s: index has shape %s; allowed: as many dims as self, none larger than those of %s",
        call.function().api, ToString(index.desc.dims).c_str(), ToString(values.desc.dims).c_str());
  }
  Take(CallOf("ScatterElements", {data, at, Leading(values, at.desc.dims)}, {AtLeast1d(y)}), out);
  out->attrs.Set("axis", int64_t{dim});
  out->attrs.Set("reduction", std::string(reduction));
  out->in_place = true;
  return OkStatus();
}

Result<const char*> ScatterReduction(const Call& call) {
  static constexpr const char* kNames[] = {"none", "add", "mul"};
  const int64_t reduce = call.Int("reduce");
  if (reduce >= 0 && reduce <= 2) return kNames[reduce];
  return BadValue(call, "reduce", std::to_string(reduce), "0 (replace), 1 (add), 2 (multiply)");
}

}  // namespace

Status Adapt_Scatter(const Call& call, OpCall& out) {
  if (call.function().Find("reduce") < 0) return BindScatter(call, Arg(call, "src"), "add", &out);
  OPSNN_ASSIGN_OR_RETURN(const char* reduction, ScatterReduction(call));
  return BindScatter(call, Arg(call, "src"), reduction, &out);
}

Status Adapt_ScatterValue(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const char* reduction, ScatterReduction(call));
  const Operand self = Arg(call, {"self", "selfRef"});
  OPSNN_ASSIGN_OR_RETURN(const Operand value, ConstantScalar(call, "value", self.desc.dtype));
  return BindScatter(call, BroadcastView(value, AtLeast1d(Arg(call, "index")).desc.dims), reduction, &out);
}

// With includeSelf = false the elements of self that are named count as not there.
Status Adapt_ScatterReduce(const Call& call, OpCall& out) {
  static constexpr const char* kNames[] = {"none", "add", "mul", "max", "min", "mean"};
  const int64_t reduce = call.Int("reduce");
  if (reduce < 0 || reduce > 5) {
    return BadValue(call, "reduce", std::to_string(reduce),
                    "0 (replace), 1 (sum), 2 (product), 3 (max), 4 (min), 5 (mean)");
  }
  OPSNN_RETURN_IF_ERROR(BindScatter(call, Arg(call, "src"), kNames[reduce], &out));
  out.attrs.Set("include_self", int64_t{call.Int("includeSelf") != 0});
  return OkStatus();
}

// Slices at tuples of indices; the functions that came from TensorFlow take single indices of the first dim.
Status Adapt_ScatterNd(const Call& call, OpCall& out) {
  const std::string_view api = call.function().api;
  const Operand data = Arg(call, {"data", "varRef"}), y = Arg(call, {"out", "varRef"});
  Operand indices = Arg(call, "indices");
  const Operand updates = Arg(call, "updates");
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, data, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, data));
  for (const Operand* o : {&y, &updates})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, data.desc.dtype, FirstOf(call, {"data", "varRef"})));
  const char* reduction = api == "aclnnTfScatterAdd" ? "add"
                          : api == "aclnnScatterMul" ? "mul"
                          : api == "aclnnScatterMax" ? "max"
                          : api == "aclnnScatterMin" ? "min"
                          : api == "aclnnScatterDiv" ? "div"
                                                     : "none";
  const bool tuples = std::string_view(reduction) == "none";
  OPSNN_RETURN_IF_ERROR(RequireRank(call, indices, tuples ? 1 : 0, kMaxRank - 1));
  if (!tuples) indices = AsTuples(indices);
  Take(CallOf("ScatterND", {data, indices, updates}, {y}), &out);
  out.attrs.Set("reduction", std::string(reduction));
  out.in_place = true;
  return OkStatus();
}

// Slices of self along dim become `value`.
Status Adapt_IndexFillAt(const Call& call, OpCall& out) {
  const Operand self = AtLeast1d(Arg(call, {"self", "selfRef"})),
                y = AtLeast1d(Arg(call, {"out", "selfRef"}));
  const Operand index = AtLeast1d(Arg(call, "index"));
  const int rank = self.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, index));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, index, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  OPSNN_ASSIGN_OR_RETURN(const Operand value, ConstantScalar(call, "value", self.desc.dtype));
  const std::vector<int> order = MoveToFront(dim, rank);
  Dims slices = Permuted(self, order).desc.dims;
  slices[0] = index.desc.dims[0];
  Take(CallOf("ScatterND", {Permuted(self, order), AsTuples(index), BroadcastView(value, slices)},
              {Permuted(y, order)}),
       &out);
  out.in_place = true;
  return OkStatus();
}

// out = self, with alpha * source added at index along dim.
Status Adapt_IndexAdd(const Call& call, OpCall& out) {
  const Operand self = AtLeast1d(Arg(call, "self")), y = AtLeast1d(Arg(call, "out"));
  const Operand index = AtLeast1d(Arg(call, "index"));
  Operand source = AtLeast1d(Arg(call, "source"));
  const int rank = self.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, index));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, index, 1, 1));
  for (const Operand* o : std::initializer_list<const Operand*>{&source, &y})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  Dims want = self.desc.dims;
  want[dim] = index.desc.dims[0];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, source, want, "that of self with one slice per index"));
  OPSNN_ASSIGN_OR_RETURN(const double alpha, NumberOf(call, "alpha"));
  if (alpha != 1) {
    OPSNN_ASSIGN_OR_RETURN(
        const Operand factor,
        ConstantScalar(call, "alpha", IsHalf(self.desc.dtype) ? DType::kF32 : self.desc.dtype));
    const ComputeType type = ComputeTypeOf(self.desc.dtype);
    ProgramBuilder b;
    const SlotId x = b.Input(type), a = b.Input(type);
    b.Output(b.Binary(StageOp::kMul, x, a));
    const Operand scaled = out.Temp(self.desc.dtype, source.desc.dims);
    out.first.push_back(ProgramCall(std::move(b).Build(), {source, factor}, {scaled}));
    source = scaled;
  }
  const std::vector<int> order = MoveToFront(dim, rank);
  Take(CallOf("ScatterND", {Permuted(self, order), AsTuples(index), Permuted(source, order)},
              {Permuted(y, order)}),
       &out);
  out.attrs.Set("reduction", std::string("add"));
  out.in_place = true;
  return OkStatus();
}

}  // namespace opsnn::capi
