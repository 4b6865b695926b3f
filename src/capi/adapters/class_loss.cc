// Losses over classes: NLLLoss and CrossEntropyLoss with their gradients. A label out of range is an error of
// the run; labels that are ignored look at class 0 and count nothing.
#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

using ll = long long;

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// The operands of a loss over [N, C, pixels..] or [C]; labels and what belongs to them have the classes as 1.
struct Classes {
  Operand x, labels;  // labels [N, 1, pixels..], as they came
  Operand weight;     // may be absent
  int axis = 0;
  int64_t count = 0;
  int64_t ignored = 0;
  Dims rows;  // the dims of labels
};

Operand WithClassDim(const Operand& o, int axis) {
  Dims dims = o.desc.dims, strides = StridesOf(o.desc);
  dims.insert(axis, 1), strides.insert(axis, 0);
  return WithView(o, dims, strides);
}

Result<Classes> ReadClasses(const Call& call, const char* x, const char* weight, int lowest, int highest) {
  Classes c;
  c.x = Arg(call, x);
  c.weight = Arg(call, weight);
  const Operand target = Arg(call, "target");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, c.x, lowest, highest));
  const Dims& dims = c.x.desc.dims;
  c.axis = dims.rank() > 1 ? 1 : 0;
  c.count = dims[c.axis];
  c.ignored = call.Int("ignoreIndex");
  Dims want = dims;
  want.erase(c.axis);
  const bool single = dims.rank() == 1 && target.desc.dims.rank() == 1 && target.desc.dims[0] == 1;
  if (!single) OPSNN_RETURN_IF_ERROR(RequireShape(call, target, want, "one label for each set of classes"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, c.weight, {c.count}, "one weight per class"));
  if (IsFloat(target.desc.dtype)) {
    return BadValue(call, "target", std::string("of dtype ") + Name(target.desc.dtype), "integers");
  }
  if (c.count == 0) {
    return InvalidArgument("%s: %s has shape %s; allowed: one class or more", call.function().api, x,
                           ToString(dims).c_str());
  }
  c.labels = single ? target : WithClassDim(target, c.axis);
  c.rows = c.labels.desc.dims;
  return c;
}

// Labels as s64, with 0 where they are ignored.
Operand SafeLabels(const Classes& c, OpCall* out, std::vector<OpCall>* calls) {
  const ComputeType type = ComputeTypeOf(c.labels.desc.dtype);
  ProgramBuilder b;
  SlotId t = b.Input(type);
  if (type != ComputeType::kS64) t = b.Convert(t, ComputeType::kS64);
  const SlotId ignored = b.Const(static_cast<double>(c.ignored), ComputeType::kS64);
  const SlotId none = b.Const(0, ComputeType::kS64);
  b.Output(b.Ternary(StageOp::kSelect, b.Binary(StageOp::kEqual, t, ignored), none, t));
  const Operand safe = out->Temp(DType::kS64, c.rows);
  calls->push_back(ProgramCall(std::move(b).Build(), {c.labels}, {safe}));
  return safe;
}

// The weight of each label, 0 where it is ignored. Looks at the labels' range as well.
Operand LabelWeights(const Classes& c, const Operand& safe, OpCall* out, std::vector<OpCall>* calls) {
  const Operand all = c.weight.given() ? WithDType(c.weight, DType::kF32)
                                       : BroadcastView(ConstantFloat(1, DType::kF32), {c.count});
  const Operand found = out->Temp(DType::kF32, c.rows), counted = out->Temp(DType::kF32, c.rows);
  OpCall pick = Along("Gather", 0, {all, safe}, found);
  pick.attrs.Set("from_end", int64_t{0});  // a negative label is none that counts from the end
  calls->push_back(std::move(pick));
  const ComputeType type = ComputeTypeOf(c.labels.desc.dtype);
  ProgramBuilder b;
  const SlotId w = b.Input(), t = b.Input(type);
  const SlotId ignored = b.Binary(StageOp::kEqual, t, b.Const(static_cast<double>(c.ignored), type));
  b.Output(b.Ternary(StageOp::kSelect, b.Convert(ignored, ComputeType::kF32), b.Const(0), w));
  calls->push_back(ProgramCall(std::move(b).Build(), {found, c.labels}, {counted}));
  return counted;
}

Operand SumOf(const Operand& each, OpCall* out, std::vector<OpCall>* calls) {
  const Operand sum = out->Temp(DType::kF32, {});
  OpCall reduce;
  Reduce("ReduceSum", each, DType::kF32, sum, {}, false, &reduce);
  calls->push_back(std::move(reduce));
  return sum;
}

// Stores rows, or their sum, over the total weight for a mean.
Status StoreLoss(const Call& call, const Operand& rows, const Operand& total, int64_t reduction,
                 const Operand& y, int axis, OpCall* out, std::vector<OpCall>* calls) {
  if (reduction == kNone) {
    Dims want = rows.desc.dims;
    if (want.rank() > 1 || y.desc.dims.rank() == 0) want.erase(axis);
    OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "one loss per label"));
    calls->push_back(CallOf("Identity", {Reshaped(rows, want)}, {WithDType(y, DType::kF32)}));
    return OkStatus();
  }
  if (y.desc.dims.rank() > 1 || NumElements(y.desc.dims) != 1) {
    return InvalidArgument("%s: %s has shape %s; allowed: one element, as the loss is reduced",
                           call.function().api, NameOf(call, y).c_str(), ToString(y.desc.dims).c_str());
  }
  std::vector<Operand> inputs = {SumOf(rows, out, calls)};
  if (reduction == kMean) inputs.push_back(total);
  calls->push_back(FormulaCall(inputs, {WithView(y, Dims(), Dims())}, 0, [&](ProgramBuilder&, Formula& f) {
    return std::vector<Term>{reduction == kMean ? f.In(0) / f.In(1) : f.In(0)};
  }));
  return OkStatus();
}

Status RequireReduction(const Call& call, int64_t reduction) {
  if (reduction >= kNone && reduction <= kSum) return OkStatus();
  return BadValue(call, "reduction", std::to_string(reduction), "0 (none), 1 (mean), 2 (sum)");
}

bool Is2d(const Call& call) {
  return std::string_view(call.function().api).find("2d") != std::string_view::npos;
}

}  // namespace

Status Adapt_NllLoss(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const Classes c,
                         ReadClasses(call, "self", "weight", Is2d(call) ? 4 : 1, Is2d(call) ? 4 : 2));
  const int64_t reduction = call.Int("reduction");
  OPSNN_RETURN_IF_ERROR(RequireReduction(call, reduction));
  const Operand y = Arg(call, "out"), weight_out = Arg(call, "totalWeightOut");
  for (const Operand* o : {&y, &weight_out})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, c.x.desc.dtype, "self"));
  if (NumElements(weight_out.desc.dims) != 1) {
    return BadValue(call, "totalWeightOut", "of shape " + ToString(weight_out.desc.dims), "one element");
  }
  std::vector<OpCall> calls;
  const Operand safe = SafeLabels(c, &out, &calls), weights = LabelWeights(c, safe, &out, &calls);
  const Operand picked = out.Temp(DType::kF32, c.rows), rows = out.Temp(DType::kF32, c.rows);
  calls.push_back(Along("GatherElements", c.axis, {WithDType(c.x, DType::kF32), safe}, picked));
  calls.push_back(FormulaCall({picked, weights}, {rows}, 0, [](ProgramBuilder&, Formula& f) {
    // An ignored label counts nothing, whatever stands at class 0.
    return std::vector<Term>{Select(Equal(f.In(1), 0.0), 0.0, -(f.In(0) * f.In(1)))};
  }));
  const Operand total = SumOf(weights, &out, &calls);
  calls.push_back(FormulaCall({total}, {WithView(weight_out, Dims(), Dims())}, 0,
                              [](ProgramBuilder&, Formula& f) { return std::vector<Term>{f.In(0)}; }));
  OPSNN_RETURN_IF_ERROR(StoreLoss(call, rows, total, reduction, y, c.axis, &out, &calls));
  return TakeAll(std::move(calls), &out);
}

Status Adapt_NllLossGrad(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const Classes c,
                         ReadClasses(call, "self", "weight", Is2d(call) ? 4 : 1, Is2d(call) ? 4 : 2));
  const int64_t reduction = call.Int("reduction");
  OPSNN_RETURN_IF_ERROR(RequireReduction(call, reduction));
  const Operand y = Arg(call, "out"), total = Arg(call, "totalWeight");
  Operand grad = Arg(call, "gradOutput");
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, c.x));
  for (const Operand* o : std::initializer_list<const Operand*>{&y, &grad})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, c.x.desc.dtype, "self"));
  if (NumElements(grad.desc.dims) == 1) {
    grad = WithView(grad, Dims(), Dims());
  } else {
    Dims want = c.rows;
    want.erase(c.axis);
    OPSNN_RETURN_IF_ERROR(RequireShape(call, grad, want, "one gradient per label"));
    grad = WithClassDim(grad, c.axis);
  }
  std::vector<Operand> inputs;
  std::vector<OpCall> calls;
  const Operand safe = SafeLabels(c, &out, &calls), weights = LabelWeights(c, safe, &out, &calls);
  inputs = {weights, grad};
  if (reduction == kMean) {
    if (NumElements(total.desc.dims) != 1) {
      return BadValue(call, "totalWeight", "of shape " + ToString(total.desc.dims), "one element");
    }
    inputs.push_back(WithView(total, Dims(), Dims()));
  }
  const Operand values = out.Temp(y.desc.dtype, c.rows);
  calls.push_back(FormulaCall(inputs, {values}, 0, [&](ProgramBuilder&, Formula& f) {
    const Term g = -(f.In(0) * f.In(1));
    return std::vector<Term>{Select(Equal(f.In(0), 0.0), 0.0, reduction == kMean ? g / f.In(2) : g)};
  }));
  const Operand zero = BroadcastView(ConstantFloat(0, y.desc.dtype), y.desc.dims);
  calls.push_back(Along("ScatterElements", c.axis, {zero, safe, values}, y));
  return TakeAll(std::move(calls), &out);
}

namespace {

// reductionOptional, labelSmoothing and the parts of CrossEntropyLoss that products do not have either.
struct CrossEntropy {
  int64_t reduction = kMean;
  double smoothing = 0;
};
Result<CrossEntropy> ReadCrossEntropy(const Call& call) {
  CrossEntropy e;
  const Argument& a = call.arguments()[call.Index("reductionOptional")];
  const std::string_view text = a.given && a.raw.p ? static_cast<const char*>(a.raw.p) : "mean";
  if (text == "none") {
    e.reduction = kNone;
  } else if (text == "sum") {
    e.reduction = kSum;
  } else if (text != "mean") {
    return BadValue(call, "reductionOptional", "\"" + std::string(text) + "\"", "mean, sum, none");
  }
  e.smoothing = call.Double("labelSmoothing");
  if (!(e.smoothing >= 0 && e.smoothing <= 1))
    return BadValue(call, "labelSmoothing", StrFormat("%g", e.smoothing), "0 to 1");
  if (call.Double("lseSquareScaleForZloss") != 0) {
    return BadValue(call, "lseSquareScaleForZloss", StrFormat("%g", call.Double("lseSquareScaleForZloss")),
                    "0");
  }
  return e;
}

// The weights of all classes, in front of rows of them.
Operand ClassWeights(const Classes& c) {
  return c.weight.given() ? c.weight : BroadcastView(ConstantFloat(1, DType::kF32), {c.count});
}

}  // namespace

Status Adapt_CrossEntropyLoss(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const CrossEntropy e, ReadCrossEntropy(call));
  OPSNN_ASSIGN_OR_RETURN(const Classes c, ReadClasses(call, "input", "weightOptional", 2, 2));
  if (call.Int("returnZloss") != 0) return BadValue(call, "returnZloss", "true", "false");
  const Operand y = Arg(call, "lossOut"), log_prob = Arg(call, "logProbOut");
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, log_prob, c.x));
  for (const Operand* o : {&y, &log_prob})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, c.x.desc.dtype, "input"));
  std::vector<OpCall> calls;
  const Operand safe = SafeLabels(c, &out, &calls), weights = LabelWeights(c, safe, &out, &calls);
  Operand logs = log_prob, smooth = weights;
  // log p of all classes: as the caller gets it and, where that is rounded, as it was before.
  if (log_prob.desc.dtype == DType::kF32) {
    calls.push_back(Along("LogSoftmax", c.axis, {c.x}, log_prob));
  } else {
    logs = out.Temp(DType::kF32, c.x.desc.dims);
    calls.push_back(FormulaCall({c.x}, {log_prob, logs}, 1, [](ProgramBuilder&, Formula& f) {
      const Term shifted = f.In(0) - f.Unary(StageOp::kRowMax, f.In(0));
      const Term p = shifted - Log(RowSum(Exp(shifted)));
      return std::vector<Term>{p, p};
    }));
  }
  if (e.smoothing != 0) {  // the part of the smoothed labels
    smooth = out.Temp(DType::kF32, c.rows);
    calls.push_back(FormulaCall({logs, ClassWeights(c)}, {smooth}, 1, [](ProgramBuilder&, Formula& f) {
      return std::vector<Term>{RowSum(f.In(0) * f.In(1))};
    }));
  }
  const Operand picked = out.Temp(DType::kF32, c.rows), rows = out.Temp(DType::kF32, c.rows);
  calls.push_back(Along("GatherElements", c.axis, {logs, safe}, picked));
  const double share = e.smoothing / static_cast<double>(c.count), ignored = static_cast<double>(c.ignored);
  calls.push_back(
      FormulaCall({picked, weights, smooth, c.labels}, {rows}, 0, [&](ProgramBuilder&, Formula& f) {
        Term loss = f.In(0) * f.In(1) * -(1 - e.smoothing);
        if (e.smoothing != 0) loss = loss - f.In(2) * share;
        return std::vector<Term>{Select(Equal(f.In(3), ignored), 0.0, loss)};
      }));
  const Operand total = SumOf(weights, &out, &calls);
  OPSNN_RETURN_IF_ERROR(StoreLoss(call, rows, total, e.reduction, y, c.axis, &out, &calls));
  return TakeAll(std::move(calls), &out);
}

Status Adapt_CrossEntropyLossGrad(const Call& call, OpCall& out) {
  OPSNN_ASSIGN_OR_RETURN(const CrossEntropy e, ReadCrossEntropy(call));
  OPSNN_ASSIGN_OR_RETURN(const Classes c, ReadClasses(call, "logProb", "weightOptional", 2, 2));
  const Operand y = Arg(call, "out");
  Operand grad = Arg(call, "gradLoss");
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, c.x));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, c.x.desc.dtype, "logProb"));
  if (e.reduction == kNone) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, grad, {c.x.desc.dims[0]}, "one gradient per label"));
    grad = WithClassDim(grad, c.axis);
  } else if (NumElements(grad.desc.dims) == 1) {
    grad = WithView(grad, Dims(), Dims());
  } else {
    return BadValue(call, "gradLoss", "of shape " + ToString(grad.desc.dims), "one element");
  }
  std::vector<OpCall> calls;
  const Operand safe = SafeLabels(c, &out, &calls), weights = LabelWeights(c, safe, &out, &calls);
  const Operand total = SumOf(weights, &out, &calls);
  if (e.smoothing == 0) {
    std::vector<Operand> inputs = {weights, grad, c.labels};
    if (e.reduction == kMean) inputs.push_back(total);
    const double none = static_cast<double>(c.ignored);
    const Operand factor = out.Temp(DType::kF32, c.rows);
    calls.push_back(FormulaCall(inputs, {factor}, 0, [&](ProgramBuilder&, Formula& f) {
      const Term g = f.In(0) * f.In(1);
      return std::vector<Term>{Select(Equal(f.In(2), none), 0.0, e.reduction == kMean ? g / f.In(3) : g)};
    }));
    calls.push_back(CallOf("CrossEntropyGrad", {c.x, safe, factor}, {y}));
    return TakeAll(std::move(calls), &out);
  }
  OPSNN_ASSIGN_OR_RETURN(const auto numbers, NewConstant(call, DType::kS32, {c.count}));
  for (int64_t i = 0; i < c.count; ++i) numbers->as<int32_t>()[i] = static_cast<int32_t>(i);
  const double share = e.smoothing / static_cast<double>(c.count), ignored = static_cast<double>(c.ignored);
  calls.push_back(FormulaCall({c.x, Constant(numbers), safe, weights, ClassWeights(c), grad, total, c.labels},
                              {y}, 1, [&](ProgramBuilder&, Formula& f) {
                                const Term p = Exp(f.In(0)), w = f.In(4);
                                Term d = (p - Equal(f.In(1), f.In(2))) * f.In(3) * (1 - e.smoothing);
                                if (e.smoothing != 0) d = d + (p * RowSum(w) - w) * share;
                                Term g = f.In(5);
                                if (e.reduction == kMean) g = g / f.In(6);
                                return std::vector<Term>{Select(Equal(f.In(7), ignored), 0.0, d * g)};
                              }));
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
