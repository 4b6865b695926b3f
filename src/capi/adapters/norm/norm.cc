// RmsNorm, AddRmsNorm, GroupNorm and BatchNorm: row programs over views of the tensors.
#include "capi/adapters/norm/norm_args.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// `call` writes `to`, which is y or a temporary that is then copied to y.
void TakeInto(OpCall call, const Operand& to, const Operand& y, OpCall* out) {
  if (to.temp < 0) return Take(std::move(call), out);
  out->first.push_back(std::move(call));
  out->op = op::FindOperator("Identity");
  out->inputs = {to};
  out->outputs = {y};
}

// What an RMS function gives: y, perhaps once more in another type, the factor, the sum.
struct RmsResults {
  Operand y, y2, rstd, sum;
  double gamma_offset = 0;  // added to gamma
};

// x (+ x2), gamma -> y, the reciprocal root of the mean square, and the sum, as far as they are wanted.
Program RmsProgram(double eps, bool add, const RmsResults& to) {
  ProgramBuilder b;
  SlotId x = b.Input();
  const SlotId x2 = add ? b.Input() : kNoSlot;
  SlotId gamma = b.Input();
  if (to.gamma_offset != 0) gamma = b.Unary(StageOp::kAffine, gamma, 1, to.gamma_offset);
  if (add) x = b.Binary(StageOp::kAdd, x, x2);
  const SlotId mean = b.Unary(StageOp::kRowMean, b.Unary(StageOp::kSquare, x));
  const SlotId scale = b.Unary(StageOp::kRsqrt, b.Unary(StageOp::kAffine, mean, 1, eps));
  const SlotId y = b.Binary(StageOp::kMul, b.Binary(StageOp::kMul, x, scale), gamma);
  b.Output(y);
  if (to.y2.given()) b.Output(y);
  if (to.rstd.given()) b.Output(scale);
  if (to.sum.given()) b.Output(x);
  return std::move(b).Build();
}

Status BindRms(const Call& call, std::vector<Operand> inputs, const RmsResults& to, OpCall* out) {
  const Operand x = inputs[0];
  const bool add = inputs.size() > 1;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireEpsilon(call, "epsilon"));
  for (const Operand* o : {&to.y, &to.y2, &to.sum}) {
    const DType type = o == &to.y && to.y2.given() ? DType::kF32 : x.desc.dtype;
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, type, "the input"));
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, x));
  }
  OPSNN_ASSIGN_OR_RETURN(const Operand gamma, RowWeight(call, "gamma", x));
  const int rows = gamma.desc.dims.rank();
  OPSNN_RETURN_IF_ERROR(RequireShape(call, to.rstd, KeptDims(x, rows), "with the normalised dims as 1"));
  inputs.push_back(gamma);
  std::vector<Operand> outputs = {to.y};
  for (const Operand* o : {&to.y2, &to.rstd, &to.sum}) {
    if (o->given()) outputs.push_back(*o);
  }
  Take(ProgramCall(RmsProgram(call.Double("epsilon"), add, to), std::move(inputs), std::move(outputs), rows),
       out);
  return OkStatus();
}

// A per-channel tensor as [C, 1, 1] in front of the rows of a channel.
Operand PerChannel(const Operand& o) {
  return WithView(o, {o.desc.dims[0], 1, 1}, {StridesOf(o.desc)[0], 0, 0});
}

}  // namespace

Status Adapt_RmsNorm(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), gamma = Arg(call, "gamma");
  if (gamma.desc.dtype != DType::kF32) OPSNN_RETURN_IF_ERROR(RequireDType(call, gamma, x.desc.dtype, "x"));
  RmsResults to{Arg(call, "yOut"), {}, Arg(call, "rstdOut"), {}};
  if (std::string_view(call.function().api) == "aclnnGemmaRmsNorm") to.gamma_offset = 1;
  return BindRms(call, {x}, to, &out);
}

Status Adapt_AddRmsNorm(const Call& call, OpCall& out) {
  const Operand x1 = Arg(call, {"x1", "x1Ref"}), x2 = Arg(call, {"x2", "x2Ref"});
  OPSNN_RETURN_IF_ERROR(RequireDType(call, x2, x1.desc.dtype, "x1"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, Arg(call, "gamma"), x1.desc.dtype, "x1"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, x2, x1));
  RmsResults to;
  to.rstd = Arg(call, "rstdOut");
  if (call.function().Find("x1Ref") >= 0) {  // in place: the result and the sum
    to.y = x1, to.sum = x2;
    return BindRms(call, {x1, x2}, to, &out);
  }
  to.sum = Arg(call, "xOut");
  to.y = Arg(call, {"yOut", "y1Out"});
  if (call.function().Find("y2Out") >= 0) to.y2 = Arg(call, "y2Out");
  if (to.rstd.given() && !to.sum.given()) {
    return Errorf(Code::kNull, "%s: xOut is null; it is required where rstdOut is given",
                  call.function().api);
  }
  return BindRms(call, {x1, x2}, to, &out);
}

namespace {

// y * sigmoid(scale * y) behind a group normalisation; 0: nothing.
double SwishScale(const Call& call) {
  const OpsnnFunction& f = call.function();
  if (f.Find("activateSwish") >= 0) return call.Int("activateSwish") != 0 ? call.Double("swishScale") : 0;
  if (f.Find("activateSilu") >= 0) return call.Int("activateSilu") != 0 ? 1 : 0;
  return std::string_view(f.api) == "aclnnGroupNormSilu" ? 1 : 0;
}

Status CheckGroupSizes(const Call& call, const Operand& x, int64_t pixels, const char* group) {
  const Dims& dims = x.desc.dims;
  if (call.function().Find("HxW") >= 0) {
    const int64_t n = call.Int("N"), c = call.Int("C"), s = call.Int("HxW");
    if (n != dims[0] || c != dims[1] || s != pixels) {
      return InvalidArgument(
          "%s: N, C and HxW are %lld, %lld and %lld; allowed: %lld, %lld and %lld, as %s of "
          "shape %s has",
          call.function().api, ll{n}, ll{c}, ll{s}, ll{dims[0]}, ll{dims[1]}, ll{pixels},
          NameOf(call, x).c_str(), ToString(dims).c_str());
    }
  }
  const int64_t groups = call.Int(group);
  if (groups < 1 || dims[1] % groups != 0) {
    return BadValue(call, group, std::to_string(groups),
                    StrFormat("divisors of %lld, which is C", ll{dims[1]}));
  }
  return OkStatus();
}

}  // namespace

namespace {

// dtypes and shapes beside x; whether the result is quantised changes what y may be.
Status CheckGroupNorm(const Call& call, const Operand& x, const Operand& scale, int64_t groups) {
  const Operand y = Arg(call, {"out", "yOut"}), mean = Arg(call, "meanOut"), rstd = Arg(call, "rstdOut"),
                gamma = Arg(call, "gamma"), beta = Arg(call, "beta");
  const int64_t n = x.desc.dims[0], c = x.desc.dims[1];
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  const double eps = call.Double("eps");
  if (!(eps > 0)) return BadValue(call, "eps", StrFormat("%g", eps), "above 0");
  const std::string whose = NameOf(call, x);
  if (!scale.given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, whose.c_str()));
  // The functions without HxW take f32 parameters as well, where their results are not quantised, and give
  // f32 statistics with them.
  const bool or_f32 = call.function().Find("HxW") < 0 && !scale.given();
  const bool weighted = gamma.given() || beta.given();
  for (const Operand* o : {&mean, &rstd, &gamma, &beta}) {
    if (or_f32 && weighted && o->desc.dtype == DType::kF32) continue;
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, whose.c_str()));
  }
  OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&gamma, &beta}, c));
  if (!(scale.desc.dims == Dims{1})) OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&scale}, c));
  for (const Operand* o : {&mean, &rstd}) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {n, groups}, "one value per image and group"));
  }
  if (scale.given() && call.Int("activateSilu") == 0) return BadValue(call, "activateSilu", "false", "true");
  return OkStatus();
}

}  // namespace

Status Adapt_GroupNorm(const Call& call, OpCall& out) {
  const Operand x = Arg(call, {"self", "x"}), y = Arg(call, {"out", "yOut"});
  const Operand mean = Arg(call, "meanOut"), rstd = Arg(call, "rstdOut");
  const Operand gamma = Arg(call, "gamma"), beta = Arg(call, "beta");
  const Operand quantum = call.function().Find("quantScale") >= 0 ? Arg(call, "quantScale") : Operand{};
  const Dims& dims = x.desc.dims;
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  int64_t s = 1;
  for (int i = 2; i < dims.rank(); ++i) s *= dims[i];
  const char* group = FirstOf(call, {"group", "numGroups"});
  OPSNN_RETURN_IF_ERROR(CheckGroupSizes(call, x, s, group));
  const int64_t n = dims[0], c = dims[1], groups = call.Int(group);
  OPSNN_RETURN_IF_ERROR(CheckGroupNorm(call, x, quantum, groups));
  if (c * s == 0) return TakeStatisticsOfNothing(mean, rstd, &out);
  // Rows are the channels and pixels of a group.
  const Dims rows = {n, groups, c / groups, s};
  auto affine = [&](const Operand& o) {
    const int64_t step = o.desc.dims == Dims{1} ? 0 : StridesOf(o.desc)[0];
    return WithView(o, {groups, c / groups, 1}, {step * (c / groups), step, 0});
  };
  auto per_group = [&](const Operand& o) {
    const Dims st = StridesOf(o.desc);
    return WithView(o, {n, groups, 1, 1}, {st[0], st[1], 0, 0});
  };
  const Operand from = Contiguously(x, &out);
  const Operand to = y.desc.IsContiguous() ? y : out.Temp(y.desc.dtype, y.desc.dims);
  std::vector<Operand> inputs = {Reshaped(from, rows)};
  for (const Operand* o : {&gamma, &beta, &quantum}) {
    if (o->given()) inputs.push_back(affine(*o));
  }
  const double swish = SwishScale(call), eps = call.Double("eps");
  OpCall norm = FormulaCall(std::move(inputs), {Reshaped(to, rows), per_group(mean), per_group(rstd)}, 2,
                            [&](ProgramBuilder& b, Formula& f) {
                              size_t next = 1;
                              const Normalised m = LayerNormOf(b, f, f.In(0), eps);
                              Term z = m.y;
                              if (gamma.given()) z = z * f.In(next++);
                              if (beta.given()) z = z + f.In(next++);
                              if (swish == 1) {
                                z = Silu(z);
                              } else if (swish != 0) {
                                z = z * Sigmoid(Times(z, swish));
                              }
                              if (quantum.given()) z = Round(z / f.In(next));
                              return std::vector<Term>{z, m.mean, m.rstd};
                            });
  TakeInto(std::move(norm), to, y, &out);
  return OkStatus();
}

namespace {

// Statistics of the batch: rows are the images and pixels of a channel.
struct Training {
  std::vector<Operand> inputs, outputs;
  Program program;
};

// One running statistic: (1 - momentum) * old + momentum * new.
SlotId Update(ProgramBuilder& b, SlotId old, SlotId fresh, double momentum) {
  return b.Binary(StageOp::kAdd, b.Unary(StageOp::kAffine, old, 1 - momentum, 0),
                  b.Unary(StageOp::kAffine, fresh, momentum, 0));
}

Training BatchStatistics(const Call& call, const Operand& x, const Operand& y, int64_t count) {
  Training t;
  ProgramBuilder b;
  const SlotId in = b.Input();
  t.inputs = {x};
  SlotId slots[4] = {kNoSlot, kNoSlot, kNoSlot, kNoSlot};
  const char* const params[] = {"weight", "bias", "runningMean", "runningVar"};
  for (int i = 0; i < 4; ++i) {
    if (!call.Given(params[i])) continue;
    slots[i] = b.Input(ComputeType::kF32, i >= 2);
    t.inputs.push_back(PerChannel(Arg(call, params[i])));
  }
  const double momentum = call.Double("momentum");
  const auto [mean, d, var] = AddRowMoments(b, in);
  const SlotId rstd = b.Unary(StageOp::kRsqrt, b.Unary(StageOp::kAffine, var, 1, call.Double("eps")));
  SlotId result = b.Binary(StageOp::kMul, d, rstd);
  if (slots[0] != kNoSlot) result = b.Binary(StageOp::kMul, result, slots[0]);
  if (slots[1] != kNoSlot) result = b.Binary(StageOp::kAdd, result, slots[1]);
  auto output = [&](SlotId s, Operand o) {
    b.Output(s);
    t.outputs.push_back(std::move(o));
  };
  output(result, y);
  if (call.Given("saveMean")) output(mean, PerChannel(Arg(call, "saveMean")));
  if (call.Given("saveInvstd")) output(rstd, PerChannel(Arg(call, "saveInvstd")));
  if (slots[2] != kNoSlot) output(Update(b, slots[2], mean, momentum), PerChannel(Arg(call, "runningMean")));
  if (slots[3] != kNoSlot) {
    // The running variance is that of the sample.
    const double unbiased = count > 0 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
    const SlotId sample = b.Unary(StageOp::kAffine, var, unbiased, 0);
    output(Update(b, slots[3], sample, momentum), PerChannel(Arg(call, "runningVar")));
  }
  t.program = std::move(b).Build();
  return t;
}

Operand ConstantChannels(double value, int64_t channels, DType dtype) {
  return BroadcastView(ConstantFloat(value, dtype), {channels});
}

// One multiplication and one addition per element.
Status BindInference(const Call& call, const Operand& x, const Operand& y, int64_t channels, OpCall* out) {
  auto or_constant = [&](const char* param, const char* partner, double value) {
    const Operand o = Arg(call, param), other = Arg(call, partner);
    const DType type = other.given() ? other.desc.dtype : DType::kF32;
    return o.given() ? o : ConstantChannels(value, channels, type);
  };
  out->op = op::FindOperator("BatchNormalization");
  out->attrs.Set("epsilon", call.Double("eps"));
  out->inputs = {x, or_constant("weight", "bias", 1), or_constant("bias", "weight", 0),
                 or_constant("runningMean", "runningVar", 0), or_constant("runningVar", "runningMean", 1)};
  for (size_t i = 1; i < 5; ++i) {  // pairs of one type each
    const DType a = out->inputs[i].desc.dtype, b = out->inputs[i % 2 ? i + 1 : i - 1].desc.dtype;
    if (a != b && out->inputs[i].tensor >= 0) out->inputs[i] = WithDType(out->inputs[i], DType::kF32);
  }
  out->outputs = {y};
  return OkStatus();
}

}  // namespace

Status Adapt_BatchNorm(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "input"), y = Arg(call, "output");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "input"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_RETURN_IF_ERROR(RequireEpsilon(call, "eps"));
  const int64_t channels = x.desc.dims[1];
  for (const char* p : {"weight", "bias", "runningMean", "runningVar"}) {
    const Operand o = Arg(call, p);
    OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&o}, channels));
  }
  if (call.Int("training") == 0) return BindInference(call, x, y, channels, &out);
  for (const char* p : {"saveMean", "saveInvstd"}) {
    const Operand o = Arg(call, p);
    OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&o}, channels));
  }
  const int64_t n = x.desc.dims[0], pixels = channels && n ? NumElements(x.desc.dims) / (n * channels) : 0;
  if (n * pixels == 1) {
    return InvalidArgument(
        "%s: training over one value per channel (input is %s), whose variance says nothing; "
        "allowed: two or more",
        call.function().api, ToString(x.desc.dims).c_str());
  }
  auto rows = [&](const Operand& o) { return Permuted(Reshaped(o, {n, channels, pixels}), {1, 0, 2}); };
  const Operand from = Contiguously(x, &out);
  const Operand to = y.desc.IsContiguous() ? y : out.Temp(y.desc.dtype, y.desc.dims);
  Training t = BatchStatistics(call, rows(from), rows(to), n * pixels);
  OpCall norm = ProgramCall(std::move(t.program), std::move(t.inputs), std::move(t.outputs), 2);
  TakeInto(std::move(norm), to, y, &out);
  return OkStatus();
}

}  // namespace opsnn::capi
