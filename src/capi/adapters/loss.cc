// Losses of elements and their gradients: one program per function, reduced where the caller asks for it.
#include <algorithm>
#include <limits>

#include "capi/adapters/common.h"
#include "op/formula.h"

namespace opsnn::capi {
namespace {

using op::Formula;
using op::Term;

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2, kBatchMean = 3 };

// What a loss computes with. Weights may be absent.
struct LossArgs {
  Formula& f;
  Term x, target;
  Term grad{};  // gradients only
  bool weighted = false, positive = false;
  Term weight{}, pos_weight{};
  double beta = 1;
  bool log_target = false;
};

Term Sign(Term x) { return x.formula->Unary(StageOp::kSign, x); }
Term Weighted(const LossArgs& a, Term loss) { return a.weighted ? loss * a.weight : loss; }

Term L1(const LossArgs& a) { return Abs(a.x - a.target); }
Term L1Grad(const LossArgs& a) { return a.grad * Sign(a.x - a.target); }
Term Mse(const LossArgs& a) { return Square(a.x - a.target); }
Term MseGrad(const LossArgs& a) { return a.grad * (a.x - a.target) * 2.0; }
Term SmoothL1(const LossArgs& a) {
  const Term d = Abs(a.x - a.target);
  if (a.beta == 0) return d;
  return Select(d < a.beta, Square(d) * (0.5 / a.beta), d - 0.5 * a.beta);
}
Term SmoothL1Grad(const LossArgs& a) {
  const Term d = a.x - a.target;
  if (a.beta == 0) return a.grad * Sign(d);
  return a.grad * Select(Abs(d) < a.beta, d * (1 / a.beta), Sign(d));
}
Term SoftMargin(const LossArgs& a) { return Softplus(-(a.x * a.target)); }
Term SoftMarginGrad(const LossArgs& a) { return -(a.grad * a.target * Sigmoid(-(a.x * a.target))); }
// Logarithms are held above -100, so that a sure and wrong answer costs a finite amount.
Term Bce(const LossArgs& a) {
  const Term one = Max(Log(a.x), -100.0), zero = Max(Log(1.0 - a.x), -100.0);
  return Weighted(a, -(a.target * one + (1.0 - a.target) * zero));
}
Term BceGrad(const LossArgs& a) {
  return Weighted(a, a.grad * (a.x - a.target) / Max((1.0 - a.x) * a.x, 1e-12));
}
// log(1 + exp(-x)) is the cost of x where the target is 1.
Term BceLogits(const LossArgs& a) {
  const Term cost = Softplus(-a.x), rest = (1.0 - a.target) * a.x;
  if (!a.positive) return Weighted(a, rest + cost);
  return Weighted(a, rest + (1.0 + (a.pos_weight - 1.0) * a.target) * cost);
}
Term BceLogitsGrad(const LossArgs& a) {
  if (!a.positive) return Weighted(a, a.grad * (Sigmoid(a.x) - a.target));
  const Term ones = a.pos_weight * a.target;
  return Weighted(a, a.grad * ((ones + 1.0 - a.target) * Sigmoid(a.x) - ones));
}
Term KlDivGrad(const LossArgs& a) {
  if (a.log_target) return -(a.grad * Exp(a.target));
  return Select(a.target > 0.0, -(a.grad * a.target), 0.0);
}
Term KlDivTargetGrad(const LossArgs& a) {
  if (a.log_target) return a.grad * Exp(a.target) * (a.target - a.x + 1.0);
  return a.grad * (Log(a.target) - a.x + 1.0);
}

struct Loss {
  const char* api;
  Term (*formula)(const LossArgs&);
  bool gradient = false;
  int64_t last_reduction = kSum;
};
constexpr Loss kLosses[] = {
    {"aclnnL1Loss", L1},
    {"aclnnL1LossBackward", L1Grad, true},
    {"aclnnMseLoss", Mse},
    {"aclnnMseLossOut", Mse},
    {"aclnnMseLossBackward", MseGrad, true},
    {"aclnnSmoothL1Loss", SmoothL1},
    {"aclnnSmoothL1LossBackward", SmoothL1Grad, true},
    {"aclnnSoftMarginLoss", SoftMargin},
    {"aclnnSoftMarginLossBackward", SoftMarginGrad, true},
    {"aclnnBinaryCrossEntropy", Bce},
    {"aclnnBinaryCrossEntropyBackward", BceGrad, true},
    {"aclnnBinaryCrossEntropyWithLogits", BceLogits},
    {"aclnnBinaryCrossEntropyWithLogitsBackward", BceLogitsGrad, true},
    {"aclnnKlDivBackward", KlDivGrad, true, kBatchMean},
    {"aclnnKlDivTargetBackward", KlDivTargetGrad, true, kBatchMean},
};

const Loss& FindLoss(std::string_view api) {
  for (const Loss& l : kLosses) {
    if (api == l.api) return l;
  }
  return kLosses[0];  // every row of the adapter is in the table
}

// Operands in the order in which the program takes them, and what they broadcast to.
struct LossOperands {
  std::vector<Operand> inputs;
  Dims dims, pair;  // of all operands; of self and target alone
  int grad = -1, weight = -1, pos_weight = -1;
  DType dtype = DType::kF32;
};

Status FindOperands(const Call& call, bool gradient, LossOperands* o) {
  o->inputs = {Arg(call, "self"), Arg(call, "target")};
  auto add = [&](std::initializer_list<const char*> names) {
    const char* name = FirstOf(call, names);
    if (call.function().Find(name) < 0 || !call.Given(name)) return -1;
    o->inputs.push_back(Arg(call, name));
    return static_cast<int>(o->inputs.size()) - 1;
  };
  if (gradient) o->grad = add({"gradOutput", "gradOut"});
  o->weight = add({"weight", "weightOptional"});
  o->pos_weight = add({"posWeightOptional"});
  std::vector<DType> types;
  o->dims = o->inputs[0].desc.dims;
  for (size_t i = 0; i < o->inputs.size(); ++i) {
    const Operand& in = o->inputs[i];
    types.push_back(in.desc.dtype);
    const auto both = BroadcastDims(o->dims, in.desc.dims);
    const bool grows = both.ok() && i > 1 && !(*both == o->dims);
    if (!both.ok() || grows) {
      return InvalidArgument("%s: %s has shape %s; allowed: shapes that broadcast %s %s", call.function().api,
                             NameOf(call, in).c_str(), ToString(in.desc.dims).c_str(), grows ? "to" : "with",
                             ToString(o->dims).c_str());
    }
    o->dims = *both;
    if (i == 1) o->pair = o->dims;
  }
  o->dtype = op::PromoteTypes(types);
  return OkStatus();
}

Program LossProgram(const Call& call, const Loss& loss, const LossOperands& o, double factor) {
  std::vector<DType> dtypes;
  for (const Operand& in : o.inputs) dtypes.push_back(in.desc.dtype);
  ProgramBuilder b;
  const op::Attrs none;
  const op::ProgramContext context{dtypes, &none, {}};
  Formula f(b, context, o.dtype == DType::kF64 ? ComputeType::kF64 : ComputeType::kF32);
  LossArgs a{f, f.In(0), f.In(1)};
  if (o.grad >= 0) a.grad = f.In(static_cast<size_t>(o.grad));
  if ((a.weighted = o.weight >= 0)) a.weight = f.In(static_cast<size_t>(o.weight));
  if ((a.positive = o.pos_weight >= 0)) a.pos_weight = f.In(static_cast<size_t>(o.pos_weight));
  if (call.function().Find("beta") >= 0) a.beta = call.Double("beta");
  if (call.function().Find("logTarget") >= 0) a.log_target = call.Int("logTarget") != 0;
  Term y = loss.formula(a);
  if (factor != 1) y = y * factor;
  b.Output(f.Finish(y));
  return std::move(b).Build();
}

}  // namespace

Status Adapt_Loss(const Call& call, OpCall& out) {
  const Loss& loss = FindLoss(call.function().api);
  const int64_t reduction = call.Int("reduction");
  if (reduction < kNone || reduction > loss.last_reduction) {
    return BadValue(call, "reduction", std::to_string(reduction),
                    loss.last_reduction == kSum ? "0 (none), 1 (mean), 2 (sum)"
                                                : "0 (none), 1 (mean), 2 (sum), 3 (mean over the batch)");
  }
  if (call.function().Find("beta") >= 0 && !(call.Double("beta") >= 0)) {
    return BadValue(call, "beta", StrFormat("%g", call.Double("beta")), "0 or more");
  }
  LossOperands o;
  OPSNN_RETURN_IF_ERROR(FindOperands(call, loss.gradient, &o));
  const Operand y = Arg(call, {"out", "result", "gradInput", "gradTarget"});
  OPSNN_RETURN_IF_ERROR(RequireCast(call, o.dtype, y));
  const std::string_view api = loss.api;
  if (api == "aclnnBinaryCrossEntropy" ||
      api == "aclnnBinaryCrossEntropyWithLogits") {  // these do not promote
    for (const Operand* other : std::initializer_list<const Operand*>{&o.inputs[1], &y})
      OPSNN_RETURN_IF_ERROR(RequireDType(call, *other, o.inputs[0].desc.dtype, "self"));
  }
  const auto count = static_cast<double>(NumElements(o.pair));
  if (loss.gradient || reduction == kNone) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, y, o.dims, "the shape of the result"));
    double factor = 1;
    if (loss.gradient && reduction == kMean && count > 0) factor = 1 / count;
    if (reduction == kBatchMean && o.pair.rank() > 0 && o.pair[0] > 0)
      factor = 1 / static_cast<double>(o.pair[0]);
    Take(ProgramCall(LossProgram(call, loss, o, factor), o.inputs, {y}), &out);
    return OkStatus();
  }
  // One number over all elements; MseLossOut goes over the first dim alone.
  const bool first_dim = api == "aclnnMseLossOut" && o.dims.rank() > 0;
  const std::vector<int64_t> axes = first_dim ? std::vector<int64_t>{0} : std::vector<int64_t>{};
  Operand to = y;
  if (first_dim) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, y, ReducedDims(o.dims, axes, false), "without the first dim"));
  } else if (y.desc.dims.rank() > 1 || NumElements(y.desc.dims) != 1) {
    return InvalidArgument("%s: %s has shape %s; allowed: one element, as reduction is %lld",
                           call.function().api, NameOf(call, y).c_str(), ToString(y.desc.dims).c_str(),
                           static_cast<long long>(reduction));
  } else {
    to = WithView(y, Dims(), Dims());
  }
  if (count == 0) {
    const double empty = reduction == kMean ? std::numeric_limits<double>::quiet_NaN() : 0;
    out.op = op::FindOperator("Identity");
    out.inputs = {BroadcastView(ConstantFloat(empty, y.desc.dtype), to.desc.dims)};
    out.outputs = {to};
    return OkStatus();
  }
  const DType wide = o.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Operand each = out.Temp(wide, o.dims);
  out.first.push_back(ProgramCall(LossProgram(call, loss, o, 1), o.inputs, {each}));
  Reduce(reduction == kMean ? "ReduceMean" : "ReduceSum", each, wide, to, axes, false, &out);
  return OkStatus();
}

// log(x / (1 - x)), x held between eps and 1 - eps for an eps of 0 or more.
Status Adapt_Logit(const Call& call, OpCall& out) {
  const bool gradient = call.function().Find("dy") >= 0;
  const Operand x = gradient ? Arg(call, "x") : Arg(call, "input"), y = Arg(call, "out");
  const double eps = call.Double("eps");
  std::vector<Operand> inputs = {x};
  if (gradient) inputs.push_back(Arg(call, "dy"));
  for (size_t i = 1; i <= inputs.size(); ++i) {
    const Operand& o = i < inputs.size() ? inputs[i] : y;
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, o, x));
    OPSNN_RETURN_IF_ERROR(RequireDType(call, o, x.desc.dtype, "the input"));
  }
  const std::vector<DType> dtypes(inputs.size(), x.desc.dtype);
  const op::Attrs none;
  const op::ProgramContext context{dtypes, &none, {}};
  ProgramBuilder b;
  Formula f(b, context, ComputeTypeOf(x.desc.dtype));
  Term z = f.In(0), result = z;
  if (gradient) {
    const Term inside = And(z >= std::max(eps, 0.0), z <= 1 - std::max(eps, 0.0));
    const double outside = eps < 0 ? std::numeric_limits<double>::quiet_NaN() : 0;
    result = Select(Or(inside, IsNan(z)), f.In(1) / (z * (1.0 - z)), f.Const(outside));
  } else {
    if (eps >= 0) z = Select(z < eps, eps, Select(z > 1 - eps, 1 - eps, z));
    result = Log(z / (1.0 - z));
  }
  b.Output(f.Finish(result));
  Take(ProgramCall(std::move(b).Build(), inputs, {y}), &out);
  return OkStatus();
}

}  // namespace opsnn::capi
