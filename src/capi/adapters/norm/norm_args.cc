#include "capi/adapters/norm/norm_args.h"

#include <limits>
#include <numeric>

namespace opsnn::capi {

Status RequireEpsilon(const Call& call, const char* param) {
  const double eps = call.Double(param);
  return eps >= 0 ? OkStatus() : BadValue(call, param, StrFormat("%g", eps), "0 or more");
}

Status RequireChannels(const Call& call, std::initializer_list<const Operand*> operands, int64_t channels) {
  for (const Operand* o : operands) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {channels}, "one value per channel"));
  }
  return OkStatus();
}

Status ReadMask(const Call& call, std::initializer_list<const char*> outputs, std::vector<Operand>* wanted) {
  const auto& mask =
      static_cast<const BoolArray*>(call.arguments()[call.Index("outputMask")].object.get())->values;
  if (mask.size() != outputs.size()) {
    return BadValue(call, "outputMask", StrFormat("a list of %zu", mask.size()),
                    std::to_string(outputs.size()));
  }
  size_t i = 0;
  for (const char* name : outputs) {
    const bool want = mask[i++] != 0;
    if (want && !call.Given(name)) {
      return Errorf(Code::kNull, "%s: %s is null; outputMask asks for it", call.function().api, name);
    }
    wanted->push_back(want ? Arg(call, name) : Operand{});
  }
  return OkStatus();
}

Dims KeptDims(const Operand& x, int rows) {
  Dims kept = x.desc.dims;
  for (int i = kept.rank() - rows; i < kept.rank(); ++i) kept[i] = 1;
  return kept;
}

Status TakeStatisticsOfNothing(const Operand& mean, const Operand& rstd, OpCall* out) {
  std::vector<OpCall> fills;
  const auto fill = [&fills](const Operand& o, double value) {
    if (!o.given()) return;
    fills.push_back(
        CallOf("Identity", {BroadcastView(ConstantFloat(value, o.desc.dtype), o.desc.dims)}, {o}));
  };
  fill(mean, 0);
  fill(rstd, std::numeric_limits<double>::quiet_NaN());
  return TakeAll(std::move(fills), out);
}

Result<Operand> RowWeight(const Call& call, const char* param, const Operand& x) {
  Operand gamma = Arg(call, param);
  const Dims& dims = x.desc.dims;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, gamma, 1, kMaxRank));
  if (gamma.desc.dims.rank() == 2 && gamma.desc.dims[0] == 1 && gamma.desc.dims[1] == dims.back()) {
    const bool exact = dims.rank() >= 2 && dims[dims.rank() - 2] == 1;
    if (!exact) gamma = WithView(gamma, {dims.back()}, {StridesOf(gamma.desc)[1]});
  }
  const int rank = gamma.desc.dims.rank(), lead = dims.rank() - rank;
  bool same = lead >= 0;
  for (int i = 0; same && i < rank; ++i) same = gamma.desc.dims[i] == dims[lead + i];
  if (same) return gamma;
  return InvalidArgument("%s: %s has shape %s; allowed: the last dims of %s, whose shape is %s",
                         call.function().api, param, ToString(Arg(call, param).desc.dims).c_str(),
                         NameOf(call, x).c_str(), ToString(dims).c_str());
}

Result<Operand> PerRow(const Call& call, const char* param, const Operand& x, int rows) {
  const Operand o = Arg(call, param);
  const Dims kept = KeptDims(x, rows);
  Dims lead = x.desc.dims;
  lead.resize(lead.rank() - rows);
  if (o.desc.IsContiguous() && NumElements(o.desc.dims) == NumElements(kept)) return Reshaped(o, kept);
  if (!(o.desc.dims == lead)) OPSNN_RETURN_IF_ERROR(RequireShape(call, o, kept, "one value per row"));
  Dims strides = StridesOf(o.desc);
  strides.resize(lead.rank());
  while (strides.rank() < kept.rank()) strides.push_back(0);
  return WithView(o, kept, strides);
}

Result<Operand> PerSequence(const Call& call, const char* param, const Operand& x) {
  const Operand o = Arg(call, param);
  const Dims& dims = x.desc.dims;
  Dims with = dims, without;
  with[dims.rank() - 2] = 1;
  for (int i = 0; i < dims.rank(); ++i) {
    if (i != dims.rank() - 2) without.push_back(dims[i]);
  }
  if (o.desc.dims == with) return o;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, o, without, "that of the tensor without its sequence dim"));
  Dims strides = StridesOf(o.desc);
  strides.insert(strides.rank() - 1, 0);
  return WithView(o, with, strides);
}

Normalised LayerNormOf(ProgramBuilder& b, Formula& f, Term x, double eps) {
  const RowMoments m = AddRowMoments(b, x.slot);
  const Term rstd = Rsqrt(Plus({&f, m.variance}, eps));
  return {Term{&f, m.centred} * rstd, {&f, m.mean}, rstd};
}

Term RootMeanSquare(Term x, double eps) { return Rsqrt(Plus(RowMean(Square(x)), eps)); }

Term RowGradient(Term g, Term normalised, Term rstd, bool centred) {
  const Term shared = normalised * RowMean(g * normalised);
  return (centred ? g - RowMean(g) - shared : g - shared) * rstd;
}

OpCall SumOverRows(const Operand& each, int rows, const Operand& y) {
  const int lead = each.desc.dims.rank() - rows;
  OpCall c;
  if (lead > 0) {
    std::vector<int64_t> dims(static_cast<size_t>(lead));
    std::iota(dims.begin(), dims.end(), 0);
    Reduce("ReduceSum", each, DType::kF32, y, dims, false, &c);
  } else {
    c = FormulaCall({each}, {y}, 0, [](ProgramBuilder&, Formula& f) { return std::vector<Term>{f.In(0)}; });
  }
  return c;
}

}  // namespace opsnn::capi
