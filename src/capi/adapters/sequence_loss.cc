// Losses with operators of their own (CTC, multi-label margins, point sets) and the two halves of a cross
// entropy whose vocabulary is spread over several devices.
#include <algorithm>
#include <numeric>

#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

// f32 for halves: sums of many terms are kept unrounded.
Operand Wide(const Operand& o) { return IsHalf(o.desc.dtype) ? WithDType(o, DType::kF32) : o; }

// The arrays and tensors that CtcLoss and its gradient share.
struct Ctc {
  Operand log_probs, targets;
  std::vector<int64_t> input_lengths, target_lengths;
  int64_t longest = 0;
  bool single = false;  // (T, C) without a batch
};

Result<Ctc> ReadCtc(const Call& call, const char* target_lengths, int lowest_rank) {
  Ctc c;
  c.log_probs = Arg(call, "logProbs");
  c.targets = Arg(call, "targets");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, c.log_probs, lowest_rank, 3));
  c.single = c.log_probs.desc.dims.rank() == 2;
  if (c.single) {
    Dims dims = c.log_probs.desc.dims, strides = StridesOf(c.log_probs.desc);
    dims.insert(1, 1), strides.insert(1, 0);
    c.log_probs = WithView(c.log_probs, dims, strides);
  }
  OPSNN_RETURN_IF_ERROR(RequireRank(call, c.targets, 1, 2));
  const Dims &x = c.log_probs.desc.dims, &t = c.targets.desc.dims;
  const int64_t blank = call.Int("blank");
  if (blank < 0 || blank >= x[2]) {
    return BadValue(call, "blank", std::to_string(blank),
                    StrFormat("0 to %lld, a class", static_cast<long long>(x[2]) - 1));
  }
  c.input_lengths = call.Ints("inputLengths");
  c.target_lengths = call.Ints(target_lengths);
  for (const auto& [name, lengths, most] :
       {std::tuple{"inputLengths", &c.input_lengths, x[0]},
        std::tuple{target_lengths, &c.target_lengths, t.rank() == 2 ? t[1] : t[0]}}) {
    if (static_cast<int64_t>(lengths->size()) != x[1]) {
      return BadValue(call, name, StrFormat("a list of %zu", lengths->size()),
                      StrFormat("%lld, one length per sequence", static_cast<long long>(x[1])));
    }
    for (int64_t n : *lengths) {
      if (n >= 0 && n <= most) continue;
      return BadValue(call, name, "a list with " + std::to_string(n),
                      StrFormat("0 to %lld", static_cast<long long>(most)));
    }
  }
  const int64_t sum = std::accumulate(c.target_lengths.begin(), c.target_lengths.end(), int64_t{0});
  const bool fits = t.rank() == 2 ? t[0] == x[1] : t[0] == sum;
  if (!fits) {
    return InvalidArgument(
        "%s: targets has shape %s; allowed: one row per sequence, or as many as %s sum up to",
        call.function().api, ToString(t).c_str(), target_lengths);
  }
  for (int64_t n : c.target_lengths) c.longest = std::max(c.longest, n);
  c.targets = WithDType(c.targets, DType::kS64);
  return c;
}

void SetCtc(const Call& call, const Ctc& c, op::Attrs* attrs) {
  attrs->Set("input_lengths", c.input_lengths);
  attrs->Set("target_lengths", c.target_lengths);
  attrs->Set("blank", call.Int("blank"));
  attrs->Set("zero_infinity", int64_t{call.Int("zeroInfinity") != 0});
}

// Rows of alpha hold the states of the longest target; products round them up.
Status RequireAlpha(const Call& call, const Operand& alpha, const Ctc& c) {
  const Dims &x = c.log_probs.desc.dims, &a = alpha.desc.dims;
  if (a.rank() == 3 && a[0] == x[1] && a[1] == x[0] && a[2] >= 2 * c.longest + 1) return OkStatus();
  return InvalidArgument(
      "%s: %s has shape %s; allowed: [%lld,%lld,n], n from %lld, twice the longest target + 1",
      call.function().api, NameOf(call, alpha).c_str(), ToString(a).c_str(), static_cast<long long>(x[1]),
      static_cast<long long>(x[0]), static_cast<long long>(2 * c.longest + 1));
}

Operand WithTrailingOne(const Operand& o) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  dims.push_back(1), strides.push_back(0);
  return WithView(o, dims, strides);
}

}  // namespace

Status Adapt_CtcLoss(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const Ctc c, ReadCtc(call, "targetlengths", 2));
  Operand loss = Arg(call, "negLogLikelihoodOut");
  const Operand alpha = Arg(call, "logAlphaOut");
  for (const Operand* o : std::initializer_list<const Operand*>{&loss, &alpha})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, c.log_probs.desc.dtype, "logProbs"));
  const Dims batch = {c.log_probs.desc.dims[1]};
  OPSNN_RETURN_IF_ERROR(RequireShape(call, loss, c.single ? Dims() : batch, "one loss per sequence"));
  OPSNN_RETURN_IF_ERROR(RequireAlpha(call, alpha, c));
  if (c.single) loss = WithView(loss, batch, {1});
  Take(CallOf("CtcLoss", {Wide(c.log_probs), c.targets}, {Wide(loss), Wide(alpha)}), &out);
  SetCtc(call, c, &out.attrs);
  out.attrs.Set("width", alpha.desc.dims[2]);
  return OkStatus();
}

Status Adapt_CtcLossGrad(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const Ctc c, ReadCtc(call, "targetLengths", 3));
  const Operand grad = Arg(call, "gradOut"), loss = Arg(call, "negLogLikelihood"), y = Arg(call, "out");
  const Operand alpha = Arg(call, "logAlpha");
  for (const Operand* o : {&grad, &loss, &alpha, &y})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, c.log_probs.desc.dtype, "logProbs"));
  const Dims batch = {c.log_probs.desc.dims[1]};
  for (const Operand* o : {&grad, &loss})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, batch, "one value per sequence"));
  OPSNN_RETURN_IF_ERROR(RequireAlpha(call, alpha, c));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, c.log_probs));
  Take(CallOf("CtcLossGrad", {Wide(grad), Wide(c.log_probs), c.targets, Wide(loss), Wide(alpha)}, {Wide(y)}),
       &out);
  SetCtc(call, c, &out.attrs);
  return OkStatus();
}

Status Adapt_MultilabelMargin(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), target = Arg(call, "target"), y = Arg(call, "out");
  const Operand is_target = Arg(call, "isTarget");
  const int64_t reduction = call.Int("reduction");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, self, 1, 2));
  for (const Operand* o : {&y, &is_target})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, self.desc.dtype, "self"));
  OPSNN_RETURN_IF_ERROR(RequireIndex(call, target));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, target, self));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, is_target, self));
  if (reduction < 0 || reduction > 2)
    return BadValue(call, "reduction", std::to_string(reduction), "0 (none), 1 (mean), 2 (sum)");
  const bool single = self.desc.dims.rank() == 1;
  const auto rows = [&](const Operand& o) {
    if (!single) return o;
    return WithView(o, {1, o.desc.dims[0]}, {0, StridesOf(o.desc)[0]});
  };
  if (self.desc.dims.back() == 0) {
    return InvalidArgument("%s: self has shape %s; allowed: one class or more", call.function().api,
                           ToString(self.desc.dims).c_str());
  }
  const Dims batch = {single ? 1 : self.desc.dims[0]};
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, reduction != 0 || single ? Dims() : batch, "that of the loss"));
  const Operand each = out.Temp(DType::kF32, batch);
  out.first.push_back(CallOf("MultilabelMargin",
                             {WithDType(rows(self), DType::kF32), WithDType(rows(target), DType::kS64)},
                             {each, WithDType(rows(is_target), DType::kF32)}));
  if (reduction == 0) {
    const Operand to = single ? WithView(y, batch, {1}) : y;
    Take(CallOf("Identity", {each}, {WithDType(to, DType::kF32)}), &out);
    return OkStatus();
  }
  Reduce(reduction == 1 ? "ReduceMean" : "ReduceSum", each, DType::kF32, y, {}, false, &out);
  return OkStatus();
}

Status Adapt_ChamferGrad(const Call& call, OpCall& out) {
  std::vector<Operand> in;
  for (const char* name : {"xyz1", "xyz2", "idx1", "idx2", "gradDist1", "gradDist2"})
    in.push_back(Arg(call, name));
  const Operand y1 = Arg(call, "gradXyz1"), y2 = Arg(call, "gradXyz2");
  for (const Operand* o : {&in[0], &in[1]}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 3, 3));
  for (const Operand* o : std::initializer_list<const Operand*>{&in[1], &in[4], &in[5], &y1, &y2})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, in[0].desc.dtype, "xyz1"));
  const Dims &a = in[0].desc.dims, &b = in[1].desc.dims;
  OPSNN_RETURN_IF_ERROR(RequireShape(call, in[1], {a[0], b[1], a[2]}, "batches and dims of xyz1"));
  for (size_t i : {size_t{2}, size_t{4}})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, in[i], {a[0], a[1]}, "one per point of xyz1"));
  for (size_t i : {size_t{3}, size_t{5}})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, in[i], {b[0], b[1]}, "one per point of xyz2"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y1, in[0]));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y2, in[1]));
  for (size_t i : {size_t{2}, size_t{3}}) in[i] = WithDType(in[i], DType::kS64);
  for (size_t i : {size_t{0}, size_t{1}, size_t{4}, size_t{5}}) in[i] = Wide(in[i]);
  Take(CallOf("ChamferGrad", std::move(in), {Wide(y1), Wide(y2)}), &out);
  return OkStatus();
}

// This device's part of a cross entropy over vocabStartIndex .. vocabEndIndex.
Status Adapt_CrossEntropySumExp(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "vocabParallelLogits"), target = Arg(call, "target");
  const Operand highest = Arg(call, "globalLogitsMax");
  const Operand predicted = Arg(call, "predictedLogitsOut"), sums = Arg(call, "sumExpLogitsOut"),
                exps = Arg(call, "expLogitsOut"), offset = Arg(call, "targetOffsetOut"),
                mask = Arg(call, "targetMaskOut");
  const int64_t start = call.Int("vocabStartIndex"), end = call.Int("vocabEndIndex");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, 3));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, highest, x.desc.dtype, "vocabParallelLogits"));
  if (start < 0 || start > end || end - start != x.desc.dims.back()) {
    return BadValue(call, "vocabEndIndex", std::to_string(end),
                    StrFormat("vocabStartIndex (%lld, from 0) + the last dim of vocabParallelLogits",
                              static_cast<long long>(start)));
  }
  Dims rows = x.desc.dims;
  rows.resize(rows.rank() - 1);
  if (NumElements(x.desc.dims) == 0)
    return BadValue(call, "vocabParallelLogits", "empty", "one value or more");
  for (const Operand* o : {&target, &highest, &predicted, &sums, &offset, &mask})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, rows, "one value per token"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, exps, x));
  for (const Operand* o : {&offset, &mask})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, DType::kS32, "positions"));
  const Operand safe = out.Temp(DType::kS64, rows), outside = out.Temp(DType::kS32, rows),
                picked = out.Temp(DType::kF32, rows);
  {
    ProgramBuilder b;
    SlotId t = b.Input(ComputeType::kS32);
    t = b.Convert(t, ComputeType::kS64);
    const SlotId first = b.Const(static_cast<double>(start), ComputeType::kS64);
    const SlotId last = b.Const(static_cast<double>(end), ComputeType::kS64);
    const SlotId off =
        b.Binary(StageOp::kOr, b.Binary(StageOp::kLess, t, first), b.Binary(StageOp::kGreaterEqual, t, last));
    const SlotId at =
        b.Ternary(StageOp::kSelect, off, b.Const(0, ComputeType::kS64), b.Binary(StageOp::kSub, t, first));
    b.Output(b.Convert(off, ComputeType::kS32));
    b.Output(b.Convert(off, ComputeType::kS32));
    b.Output(b.Convert(at, ComputeType::kS32));
    b.Output(at);
    out.first.push_back(ProgramCall(std::move(b).Build(), {target}, {mask, outside, offset, safe}));
  }
  out.first.push_back(FormulaCall({x, WithTrailingOne(highest)}, {exps, WithTrailingOne(sums)}, 1,
                                  [](ProgramBuilder&, Formula& f) {
                                    const Term e = Exp(f.In(0) - f.In(1));
                                    return std::vector<Term>{e, RowSum(e)};
                                  }));
  out.first.push_back(Along("GatherElements", rows.rank(), {WithDType(x, DType::kF32), WithTrailingOne(safe)},
                            WithTrailingOne(picked)));
  Take(FormulaCall({picked, highest, outside}, {predicted}, 0,
                   [](ProgramBuilder&, Formula& f) {
                     return std::vector<Term>{Select(Equal(f.In(2), 0.0), f.In(0) - f.In(1), 0.0)};
                   }),
       &out);
  return OkStatus();
}

Status Adapt_CrossEntropyMaxSum(const Call& call, OpCall& out) {
  const Operand highest = Arg(call, "logitsMax"), sums = Arg(call, "sumExpLogits"),
                predicted = Arg(call, "predictedLogits"), y = Arg(call, "lossOut");
  const Operand logits = Arg(call, "vocabParallelLogitsOptional"), softmax = Arg(call, "softMaxOutOptional");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, highest, 1, 1));
  for (const Operand* o : {&sums, &predicted, &y}) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, highest));
  if (call.Double("labelSmoothing") != 0)
    return BadValue(call, "labelSmoothing", StrFormat("%g", call.Double("labelSmoothing")), "0");
  // inputOptional and weightOptional, from which the logits came, say nothing more.
  if (logits.given() != softmax.given()) {
    return BadValue(call, "softMaxOutOptional", softmax.given() ? "given" : "null",
                    "as vocabParallelLogitsOptional: both, or none");
  }
  OpCall loss = FormulaCall({sums, predicted}, {y}, 0, [](ProgramBuilder&, Formula& f) {
    return std::vector<Term>{Log(f.In(0)) - f.In(1)};
  });
  if (!logits.given()) {
    Take(std::move(loss), &out);
    return OkStatus();
  }
  OPSNN_RETURN_IF_ERROR(RequireRank(call, logits, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, logits, {highest.desc.dims[0], logits.desc.dims[1]},
                                     "one row per value of logitsMax"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, softmax, logits));
  out.first.push_back(std::move(loss));
  Take(FormulaCall(
           {logits, WithTrailingOne(highest), WithTrailingOne(sums)}, {softmax}, 0,
           [](ProgramBuilder&, Formula& f) { return std::vector<Term>{Exp(f.In(0) - f.In(1)) / f.In(2)}; }),
       &out);
  return OkStatus();
}

}  // namespace opsnn::capi
