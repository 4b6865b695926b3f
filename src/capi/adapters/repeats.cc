// Repeats that a tensor counts, masked copies, and rows held to a norm.
#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

// For each of `total` places the source that stands there, in `to` where it is given: source i fills
// repeats[i] places.
Result<Operand> SourcesOf(const Call& call, int64_t sources, int64_t total, OpCall* out,
                          std::vector<OpCall>* calls, const Operand& to = {}) {
  const Operand repeats = AtLeast1d(Arg(call, "repeats"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, repeats, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, repeats));
  const int64_t n = repeats.desc.dims[0];
  if (n != 1 && n != sources) {
    return InvalidArgument("%s: repeats has %lld values; allowed: 1 or %lld", call.function().api,
                           static_cast<long long>(n), static_cast<long long>(sources));
  }
  const Operand places = to.given() ? to : out->Temp(DType::kS64, {total});
  OpCall fill = CallOf("RepeatSources", {repeats}, {places});
  fill.attrs.Set("sources", sources);
  fill.attrs.Set("total", total);
  calls->push_back(std::move(fill));
  return places;
}

// outputSize: the places of the result along the dim that repeats.
Result<int64_t> OutputSize(const Call& call) {
  const int64_t total = call.Int("outputSize");
  if (total < 0) return BadValue(call, "outputSize", std::to_string(total), "0 or more");
  return total;
}

}  // namespace

Status Adapt_RepeatByTensor(const Call& call, OpCall& out) {
  const bool with_dim = call.function().Find("dim") >= 0;
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const int64_t total, OutputSize(call));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  int dim = 0;
  Operand from = AtLeast1d(self);
  if (with_dim) {
    OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, kMaxRank));
    OPSNN_ASSIGN_OR_RETURN(dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  } else {
    from = Reshaped(Contiguously(self, &out), {NumElements(self.desc.dims)});
  }
  Dims want = from.desc.dims;
  want[dim] = total;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "as outputSize says"));
  std::vector<OpCall> calls;
  OPSNN_ASSIGN_OR_RETURN(const Operand sources, SourcesOf(call, from.desc.dims[dim], total, &out, &calls));
  calls.push_back(Along("Gather", dim, {from, sources}, y));
  return TakeAll(std::move(calls), &out);
}

Status Adapt_RepeatPositions(const Call& call, OpCall& out) {
  const Operand repeats = Arg(call, "repeats"), y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const int64_t total, OutputSize(call));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, repeats, 1, 1));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {total}, "as outputSize says"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, repeats.desc.dtype, "repeats"));
  std::vector<OpCall> calls;
  OPSNN_RETURN_IF_ERROR(
      SourcesOf(call, repeats.desc.dims[0], total, &out, &calls, WithDType(y, DType::kS64)).status());
  return TakeAll(std::move(calls), &out);
}

// Slices of yGrad summed up by the source that they repeat, in f32.
Status Adapt_RepeatGrad(const Call& call, OpCall& out) {
  const Operand grad = AtLeast1d(Arg(call, "yGrad")), y = AtLeast1d(Arg(call, "out"));
  const int rank = grad.desc.dims.rank();
  OPSNN_ASSIGN_OR_RETURN(const int axis, DimOf(call, "axis", call.Int("axis"), rank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, grad.desc.dtype, "yGrad"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, y, rank, rank));
  Dims want = grad.desc.dims;
  want[axis] = y.desc.dims[axis];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "that of yGrad but along the axis"));
  std::vector<OpCall> calls;
  OPSNN_ASSIGN_OR_RETURN(const Operand sources,
                         SourcesOf(call, y.desc.dims[axis], grad.desc.dims[axis], &out, &calls));
  const std::vector<int> order = MoveToFront(axis, rank);
  const Operand to = Permuted(y, order);
  OpCall sum = CallOf("ScatterND",
                      {BroadcastView(ConstantFloat(0, DType::kF32), to.desc.dims), AsTuples(sources),
                       WithDType(Permuted(grad, order), DType::kF32)},
                      {WithDType(to, DType::kF32)});
  sum.attrs.Set("reduction", std::string("add"));
  calls.push_back(std::move(sum));
  return TakeAll(std::move(calls), &out);
}

// The k-th true element of the mask takes the k-th element of source.
Status Adapt_MaskedScatter(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "selfRef"), source = Arg(call, "source"), given = Arg(call, "mask");
  OPSNN_RETURN_IF_ERROR(RequireDType(call, source, self.desc.dtype, "selfRef"));
  const Dims& dims = self.desc.dims;
  const auto both = BroadcastDims(given.desc.dims, dims);
  if (!both.ok() || !(*both == dims)) {
    return InvalidArgument("%s: mask has shape %s; allowed: shapes that broadcast to %s, that of selfRef",
                           call.function().api, ToString(given.desc.dims).c_str(), ToString(dims).c_str());
  }
  const Operand mask = WithDType(BroadcastView(given, dims), DType::kBool);
  const Operand flat = Reshaped(Contiguously(source, &out), {NumElements(source.desc.dims)});
  Take(CallOf("MaskedPut", {self, mask, flat}, {self}), &out);
  out.attrs.Set("surplus", int64_t{1});
  out.in_place = true;
  return OkStatus();
}

namespace {

// x times what brings a norm above the limit down to it.
OpCall HoldToNorm(const Operand& x, const Operand& norm, const Operand& chosen, double limit,
                  const Operand& y) {
  std::vector<Operand> inputs = {x, norm};
  if (chosen.given()) inputs.push_back(chosen);
  return FormulaCall(std::move(inputs), {y}, 0, [&](ProgramBuilder&, Formula& f) {
    const Term n = f.In(1);
    Term factor = Select(n > limit, f.Const(limit) / (n + 1e-7), f.Const(1));
    if (chosen.given()) factor = Select(f.In(2), factor, f.Const(1));
    return std::vector<Term>{f.In(0) * factor};
  });
}

}  // namespace

Status Adapt_Renorm(const Call& call, OpCall& out) {
  const Operand self = Arg(call, {"self", "selfRef"}), y = Arg(call, {"out", "selfRef"});
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(const double p, NumberOf(call, "p"));
  OPSNN_ASSIGN_OR_RETURN(const double limit, NumberOf(call, "maxNorm"));
  if (!(p > 0)) return BadValue(call, "p", StrFormat("%g", p), "above 0");
  if (!(limit >= 0)) return BadValue(call, "maxNorm", StrFormat("%g", limit), "0 or more");
  std::vector<int64_t> others;
  for (int i = 0; i < self.desc.dims.rank(); ++i) {
    if (i != dim) others.push_back(i);
  }
  std::vector<OpCall> calls;
  const Operand norm = out.Temp(DType::kF32, ReducedDims(self.desc.dims, others, true));
  AppendNorm(WithDType(self, DType::kF32), p, others, true, norm, &out, &calls);
  calls.push_back(HoldToNorm(self, norm, {}, limit, y));
  return TakeAll(std::move(calls), &out);
}

Status Adapt_EmbeddingRenorm(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "selfRef"), indices = Arg(call, "indices");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, indices));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, indices, 0, kMaxRank - 1));
  const double p = call.Double("normType"), limit = call.Double("maxNorm");
  if (!(p >= 0)) return BadValue(call, "normType", StrFormat("%g", p), "0 or more");
  if (!(limit >= 0)) return BadValue(call, "maxNorm", StrFormat("%g", limit), "0 or more");
  const int64_t rows = self.desc.dims[0];
  std::vector<OpCall> calls;
  const Operand norm = out.Temp(DType::kF32, {rows, 1}), chosen = out.Temp(DType::kF32, {rows});
  AppendNorm(WithDType(self, DType::kF32), p, {1}, true, norm, &out, &calls);
  calls.push_back(CallOf("ScatterND",
                         {BroadcastView(ConstantFloat(0, DType::kF32), {rows}), AsTuples(indices),
                          BroadcastView(ConstantFloat(1, DType::kF32), indices.desc.dims)},
                         {chosen}));
  calls.push_back(HoldToNorm(self, norm, AsTuples(chosen), limit, self));
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
