// Gradients of normalisations, from the statistics that the forward pass saved. The gradient of the input is
// a row program; those of the parameters are sums over the rows, in f32.
#include <numeric>

#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// Three switches: which gradients are wanted. Those that are must have an output.
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

// One value per row: the dims of x with the normalised ones as 1, or without them, or as many in a row.
Result<Operand> PerRow(const Call& call, const char* param, const Operand& x, int rows) {
  const Operand o = Arg(call, param);
  Dims kept = x.desc.dims, lead;
  for (int i = 0; i < kept.rank(); ++i) {
    if (i < kept.rank() - rows) {
      lead.push_back(kept[i]);
    } else {
      kept[i] = 1;
    }
  }
  if (o.desc.IsContiguous() && NumElements(o.desc.dims) == NumElements(kept)) return Reshaped(o, kept);
  if (!(o.desc.dims == lead)) OPSNN_RETURN_IF_ERROR(RequireShape(call, o, kept, "one value per row"));
  Dims strides = StridesOf(o.desc);
  strides.resize(lead.rank());
  while (strides.rank() < kept.rank()) strides.push_back(0);
  return WithView(o, kept, strides);
}

std::vector<int64_t> Leading(int count) {
  std::vector<int64_t> dims(static_cast<size_t>(count));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// y = the sum of `each` over its leading dims; where there are none, `each` itself.
OpCall SumOverRows(const Operand& each, int rows, const Operand& y) {
  const int lead = each.desc.dims.rank() - rows;
  OpCall c;
  if (lead > 0) {
    Reduce("ReduceSum", each, DType::kF32, y, Leading(lead), false, &c);
  } else {
    c = FormulaCall({each}, {y}, 0, [](ProgramBuilder&, Formula& f) { return std::vector<Term>{f.In(0)}; });
  }
  return c;
}

// The gradient by a normalised row: centred says whether the mean was taken out.
Term RowGradient(Term g, Term normalised, Term rstd, bool centred) {
  const Term shared = normalised * RowMean(g * normalised);
  return (centred ? g - RowMean(g) - shared : g - shared) * rstd;
}

// What the layer and RMS functions share. x may be a sum of two tensors, the first times alpha.
struct RowNormGrad {
  Operand dy, x, x2, gamma, mean, rstd;  // x2, gamma and mean may be absent
  Operand dsum;                          // added to the gradient; may be absent
  double alpha = 1;                      // of x where there is x2
  Operand dx, dx_scaled, dgamma, dbeta;  // dx_scaled: alpha * dx
};

Status Bind(const RowNormGrad& n, int rows, OpCall* out) {
  std::vector<Operand> inputs, outputs;
  auto add = [&](const Operand& o) {
    if (o.given()) inputs.push_back(o);
    return inputs.size() - 1;
  };
  const size_t dy = add(n.dy), x = add(n.x), rstd = add(n.rstd), x2 = add(n.x2), gamma = add(n.gamma),
               mean = add(n.mean), dsum = add(n.dsum);
  const Operand products = n.dgamma.given() ? out->Temp(DType::kF32, n.x.desc.dims) : Operand{};
  for (const Operand* o : {&n.dx, &n.dx_scaled, &products}) {
    if (o->given()) outputs.push_back(*o);
  }
  std::vector<OpCall> calls;
  if (!outputs.empty()) {
    calls.push_back(
        FormulaCall(std::move(inputs), std::move(outputs), rows, [&](ProgramBuilder&, Formula& f) {
          Term z = f.In(x);
          if (n.x2.given()) z = (n.alpha == 1 ? z : z * n.alpha) + f.In(x2);
          if (n.mean.given()) z = z - f.In(mean);
          const Term normalised = z * f.In(rstd);
          const Term g = n.gamma.given() ? f.In(dy) * f.In(gamma) : f.In(dy);
          std::vector<Term> results;
          if (n.dx.given() || n.dx_scaled.given()) {
            Term dx = RowGradient(g, normalised, f.In(rstd), n.mean.given());
            if (n.dsum.given()) dx = dx + f.In(dsum);
            if (n.dx.given()) results.push_back(dx);
            if (n.dx_scaled.given()) results.push_back(dx * n.alpha);
          }
          if (products.given()) results.push_back(f.In(dy) * normalised);
          return results;
        }));
  }
  if (n.dgamma.given()) calls.push_back(SumOverRows(products, rows, n.dgamma));
  if (n.dbeta.given()) calls.push_back(SumOverRows(n.dy, rows, n.dbeta));
  return TakeAll(std::move(calls), out);
}

}  // namespace

Status Adapt_LayerNormGrad(const Call& call, OpCall& out) {
  RowNormGrad n;
  n.dy = Arg(call, "gradOut"), n.x = Arg(call, "input"), n.gamma = Arg(call, "weightOptional");
  std::vector<Operand> wanted;
  OPSNN_RETURN_IF_ERROR(ReadMask(call, {"gradInputOut", "gradWeightOut", "gradBiasOut"}, &wanted));
  n.dx = wanted[0], n.dgamma = wanted[1], n.dbeta = wanted[2];
  const auto& shape = call.Ints("normalizedShape");
  if (shape.size() > kMaxRank) return BadValue(call, "normalizedShape", "too long", "at most 8 values");
  const Dims normalized{std::span<const int64_t>(shape)};
  OPSNN_ASSIGN_OR_RETURN(const int rows, LastDims(call, n.x, normalized, "normalizedShape"));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, n.dy, n.x));
  if (n.dx.given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, n.dx, n.x));
  if (n.dx.given() && n.dx.desc.dtype != DType::kF32) OPSNN_RETURN_IF_ERROR(RequireLike(call, n.dx, n.x));
  const Operand bias = Arg(call, "biasOptional");
  for (const Operand* o : std::initializer_list<const Operand*>{&n.gamma, &n.dgamma, &n.dbeta, &bias})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, normalized, "normalizedShape"));
  OPSNN_ASSIGN_OR_RETURN(n.mean, PerRow(call, "mean", n.x, rows));
  OPSNN_ASSIGN_OR_RETURN(n.rstd, PerRow(call, "rstd", n.x, rows));
  if (!n.dx.given() && !n.dgamma.given() && !n.dbeta.given()) {
    return BadValue(call, "outputMask", "without a true value", "one or more");
  }
  return Bind(n, rows, &out);
}

Status Adapt_RmsNormGrad(const Call& call, OpCall& out) {
  RowNormGrad n;
  n.dy = Arg(call, "dy"), n.x = Arg(call, "x"), n.gamma = Arg(call, "gamma");
  n.dx = Arg(call, "dxOut"), n.dgamma = Arg(call, "dgammaOut");
  OPSNN_ASSIGN_OR_RETURN(const int rows, LastDims(call, n.x, n.gamma.desc.dims, "gamma"));
  for (const Operand* o : {&n.dy, &n.dx}) OPSNN_RETURN_IF_ERROR(RequireLike(call, *o, n.x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, n.dgamma, n.gamma));
  OPSNN_ASSIGN_OR_RETURN(n.rstd, PerRow(call, "rstd", n.x, rows));
  return Bind(n, rows, &out);
}

Status Adapt_SumNormGrad(const Call& call, OpCall& out) {
  RowNormGrad n;
  const bool deep = call.function().Find("alpha") >= 0;
  n.dy = Arg(call, "dy"), n.gamma = Arg(call, "gamma");
  n.x = Arg(call, {"x1", "x"}), n.x2 = Arg(call, {"x2", "gx"});
  n.dgamma = Arg(call, "dgammaOut"), n.dbeta = Arg(call, "dbetaOut");
  if (deep) {
    n.alpha = call.Double("alpha");
    n.dx = Arg(call, "dgxOut"), n.dx_scaled = Arg(call, "dxOut");
  } else {
    n.dx = Arg(call, "dxOut"), n.dsum = Arg(call, "dsumOptional");
  }
  OPSNN_ASSIGN_OR_RETURN(const int rows, LastDims(call, n.x, n.gamma.desc.dims, "gamma"));
  for (const Operand* o : {&n.dy, &n.x2, &n.dx, &n.dx_scaled, &n.dsum})
    OPSNN_RETURN_IF_ERROR(RequireLike(call, *o, n.x));
  for (const Operand* o : {&n.dgamma, &n.dbeta}) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, n.gamma));
  OPSNN_ASSIGN_OR_RETURN(n.mean, PerRow(call, "mean", n.x, rows));
  OPSNN_ASSIGN_OR_RETURN(n.rstd, PerRow(call, "rstd", n.x, rows));
  return Bind(n, rows, &out);
}

namespace {

// Images as rows of a channel: [C, N, pixels], which needs them contiguous.
struct Channels {
  int64_t n, c, pixels;
  Operand Rows(const Operand& o, OpCall* out) const {
    return Permuted(Reshaped(Contiguously(o, out), {n, c, pixels}), {1, 0, 2});
  }
  static Operand Each(const Operand& o) {
    return WithView(o, {o.desc.dims[0], 1, 1}, {StridesOf(o.desc)[0], 0, 0});
  }
};

Result<Channels> ChannelsOf(const Call& call, const Operand& x) {
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  const int64_t n = x.desc.dims[0], c = x.desc.dims[1];
  return Channels{n, c, n > 0 && c > 0 ? NumElements(x.desc.dims) / (n * c) : 0};
}

Status RequireChannels(const Call& call, std::initializer_list<const Operand*> operands, int64_t channels) {
  for (const Operand* o : operands) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {channels}, "one value per channel"));
  }
  return OkStatus();
}

// [C] in front of images of any rank.
Operand OverImage(const Operand& o, const Operand& x) {
  Dims dims = Dims::Filled(x.desc.dims.rank() - 1, 1), strides = Dims::Filled(x.desc.dims.rank() - 1, 0);
  dims[0] = o.desc.dims[0], strides[0] = StridesOf(o.desc)[0];
  return WithView(o, dims, strides);
}

}  // namespace

Status Adapt_BatchNormGrad(const Call& call, OpCall& out) {
  const Operand dy = Arg(call, "gradOut"), x = Arg(call, "input"), weight = Arg(call, "weight");
  std::vector<Operand> wanted;
  OPSNN_RETURN_IF_ERROR(ReadMask(call, {"gradInput", "gradWeight", "gradBias"}, &wanted));
  OPSNN_ASSIGN_OR_RETURN(const Channels ch, ChannelsOf(call, x));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, dy, x));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, wanted[0], x));
  const bool training = call.Int("training") != 0;
  const Operand mean = Arg(call, training ? "saveMean" : "runningMean");
  const Operand spread = Arg(call, training ? "saveInvstd" : "runningVar");
  for (const Operand* o : {&mean, &spread}) {
    if (o->given()) continue;
    return Errorf(Code::kNull, "%s: the statistics that training = %d needs are null", call.function().api,
                  training);
  }
  OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&weight, &mean, &spread, &wanted[1], &wanted[2]}, ch.c));
  const double eps = call.Double("eps");
  std::vector<Operand> inputs = {ch.Rows(dy, &out), ch.Rows(x, &out), Channels::Each(mean),
                                 Channels::Each(spread)};
  if (weight.given()) inputs.push_back(Channels::Each(weight));
  std::vector<Operand> outputs;
  const Operand dx =
      wanted[0].given() && !wanted[0].desc.IsContiguous() ? out.Temp(x.desc.dtype, x.desc.dims) : wanted[0];
  if (dx.given()) outputs.push_back(Permuted(Reshaped(dx, {ch.n, ch.c, ch.pixels}), {1, 0, 2}));
  for (size_t i : {1, 2}) {
    if (wanted[i].given()) outputs.push_back(Channels::Each(wanted[i]));
  }
  if (outputs.empty()) return BadValue(call, "outputMask", "without a true value", "one or more");
  OpCall grad = FormulaCall(std::move(inputs), std::move(outputs), 2, [&](ProgramBuilder&, Formula& f) {
    const Term g = f.In(0), rstd = training ? f.In(3) : Rsqrt(f.In(3) + eps);
    const Term normalised = (f.In(1) - f.In(2)) * rstd;
    std::vector<Term> results;
    if (dx.given()) {
      const Term scaled = weight.given() ? g * f.In(4) : g;
      results.push_back(training ? RowGradient(scaled, normalised, rstd, true) : scaled * rstd);
    }
    if (wanted[1].given()) results.push_back(RowSum(g * normalised));
    if (wanted[2].given()) results.push_back(RowSum(g));
    return results;
  });
  std::vector<OpCall> calls;
  calls.push_back(std::move(grad));
  if (dx.temp >= 0) calls.push_back(CallOf("Identity", {dx}, {wanted[0]}));
  return TakeAll(std::move(calls), &out);
}

Status Adapt_BatchNormSums(const Call& call, OpCall& out) {
  const bool gradient = call.function().Find("gradOut") >= 0;
  const Operand x = Arg(call, {"x", "input"});
  OPSNN_ASSIGN_OR_RETURN(const Channels ch, ChannelsOf(call, x));
  if (!gradient) {
    const Operand sum = Arg(call, "sum"), squares = Arg(call, "squareSum");
    OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&sum, &squares}, ch.c));
    Take(FormulaCall({ch.Rows(x, &out)}, {Channels::Each(sum), Channels::Each(squares)}, 2,
                     [](ProgramBuilder&, Formula& f) {
                       return std::vector<Term>{RowSum(f.In(0)), RowSum(Square(f.In(0)))};
                     }),
         &out);
    return OkStatus();
  }
  const Operand dy = Arg(call, "gradOut"), mean = Arg(call, "mean"), rstd = Arg(call, "invstd");
  OPSNN_RETURN_IF_ERROR(RequireLike(call, dy, x));
  OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&mean, &rstd}, ch.c));
  const struct {
    const char *flag, *output;
  } kOutputs[] = {
      {"inputG", "sumDy"}, {"inputG", "sumDyXmu"}, {"weightG", "gradWeight"}, {"biasG", "gradBias"}};
  std::vector<Operand> outputs;
  std::vector<int> which;
  for (int i = 0; i < 4; ++i) {
    if (call.Int(kOutputs[i].flag) == 0) continue;
    const Operand y = Arg(call, kOutputs[i].output);
    if (!y.given()) {
      return Errorf(Code::kNull, "%s: %s is null; %s asks for it", call.function().api, kOutputs[i].output,
                    kOutputs[i].flag);
    }
    OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&y}, ch.c));
    outputs.push_back(Channels::Each(y));
    which.push_back(i);
  }
  if (outputs.empty()) return BadValue(call, "inputG", "false, as are weightG and biasG", "one of them true");
  Take(FormulaCall({ch.Rows(dy, &out), ch.Rows(x, &out), Channels::Each(mean), Channels::Each(rstd)},
                   std::move(outputs), 2,
                   [&](ProgramBuilder&, Formula& f) {
                     const Term g = f.In(0), centred = f.In(1) - f.In(2);
                     std::vector<Term> results;
                     for (int i : which) {
                       results.push_back(i == 1   ? RowSum(g * centred)
                                         : i == 2 ? RowSum(g * centred * f.In(3))
                                                  : RowSum(g));
                     }
                     return results;
                   }),
       &out);
  return OkStatus();
}

Status Adapt_BatchNormElements(const Call& call, OpCall& out) {
  const bool gradient = call.function().Find("gradOut") >= 0;
  const Operand x = Arg(call, "input"), y = Arg(call, {"output", "gradInput"});
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, y, x));
  const Operand mean = Arg(call, "mean"), rstd = Arg(call, "invstd"), weight = Arg(call, "weight");
  OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&mean, &rstd, &weight}, x.desc.dims[1]));
  std::vector<Operand> inputs = {x, OverImage(mean, x), OverImage(rstd, x)};
  if (!gradient) {
    const Operand bias = Arg(call, "bias");
    OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&bias}, x.desc.dims[1]));
    for (const Operand* o : {&weight, &bias}) {
      if (o->given()) inputs.push_back(OverImage(*o, x));
    }
    Take(FormulaCall(std::move(inputs), {y}, 0,
                     [&](ProgramBuilder&, Formula& f) {
                       Term z = (f.In(0) - f.In(1)) * f.In(2);
                       if (weight.given()) z = z * f.In(3);
                       if (bias.given()) z = z + f.In(weight.given() ? 4 : 3);
                       return std::vector<Term>{z};
                     }),
         &out);
    return OkStatus();
  }
  const Operand dy = Arg(call, "gradOut"), sum = Arg(call, "sumDy"), product = Arg(call, "sumDyXmu");
  const Operand counter = Arg(call, "counter");
  OPSNN_RETURN_IF_ERROR(RequireLike(call, dy, x));
  OPSNN_RETURN_IF_ERROR(RequireChannels(call, {&sum, &product}, x.desc.dims[1]));
  const Operand count = out.Temp(DType::kF32, {});
  OpCall all;
  Reduce("ReduceSum", counter, DType::kF32, count, {}, false, &all);
  out.first.push_back(std::move(all));
  for (const Operand& o : {dy, OverImage(sum, x), OverImage(product, x), count}) inputs.push_back(o);
  if (weight.given()) inputs.push_back(OverImage(weight, x));
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     const Term rest = (f.In(0) - f.In(1)) * Square(f.In(2)) * (f.In(5) / f.In(6));
                     const Term dx = (f.In(3) - f.In(4) / f.In(6) - rest) * f.In(2);
                     return std::vector<Term>{weight.given() ? dx * f.In(7) : dx};
                   }),
       &out);
  return OkStatus();
}

Status Adapt_GroupNormGrad(const Call& call, OpCall& out) {
  const Operand dy = Arg(call, "gradOut"), x = Arg(call, "input"), gamma = Arg(call, "gamma");
  const Operand mean = Arg(call, "mean"), rstd = Arg(call, "rstd");
  std::vector<Operand> wanted;
  OPSNN_RETURN_IF_ERROR(ReadMask(call, {"gradInput", "gradGammaOut", "gradBetaOut"}, &wanted));
  const int64_t n = call.Int("N"), c = call.Int("C"), s = call.Int("HxW"), groups = call.Int("group");
  if (groups < 1 || c < 0 || c % groups != 0) {
    return BadValue(call, "group", std::to_string(groups), StrFormat("divisors of %lld, which is C", ll{c}));
  }
  auto elements = [&](const Operand& o, int64_t count, const char* what) {
    if (!o.given() || NumElements(o.desc.dims) == count) return OkStatus();
    return InvalidArgument("%s: %s has shape %s; allowed: %lld elements, %s", call.function().api,
                           NameOf(call, o).c_str(), ToString(o.desc.dims).c_str(), ll{count}, what);
  };
  int64_t image, all;
  if (n < 0 || s < 0 || __builtin_mul_overflow(c, s, &image) || __builtin_mul_overflow(n, image, &all)) {
    return BadValue(call, "N", std::to_string(n), "sizes of 0 or more whose product fits into 64 bits");
  }
  for (const Operand* o : {&dy, &x}) OPSNN_RETURN_IF_ERROR(elements(*o, all, "N * C * HxW"));
  for (const Operand* o : {&mean, &rstd}) OPSNN_RETURN_IF_ERROR(elements(*o, n * groups, "N * group"));
  for (const Operand* o : std::initializer_list<const Operand*>{&gamma, &wanted[1], &wanted[2]})
    OPSNN_RETURN_IF_ERROR(elements(*o, c, "C"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, dy, x.desc.dtype, "input"));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, wanted[0], x));
  const Dims rows = {n, groups, c / groups, s};
  auto flat = [&](const Operand& o, const Dims& dims) { return Reshaped(Contiguously(o, &out), dims); };
  const Operand grad = flat(dy, rows),
                products = wanted[1].given() ? out.Temp(DType::kF32, {n, c, s}) : Operand{};
  const Operand dx =
      wanted[0].given() && !wanted[0].desc.IsContiguous() ? out.Temp(x.desc.dtype, x.desc.dims) : wanted[0];
  std::vector<OpCall> calls;
  std::vector<Operand> outputs;
  if (dx.given()) outputs.push_back(Reshaped(dx, rows));
  if (products.given()) outputs.push_back(Reshaped(products, rows));
  std::vector<Operand> inputs = {grad, flat(x, rows), flat(mean, {n, groups, 1, 1}),
                                 flat(rstd, {n, groups, 1, 1})};
  if (gamma.given()) inputs.push_back(flat(gamma, {groups, c / groups, 1}));
  if (!outputs.empty()) {
    calls.push_back(FormulaCall(inputs, std::move(outputs), 2, [&](ProgramBuilder&, Formula& f) {
      const Term normalised = (f.In(1) - f.In(2)) * f.In(3);
      std::vector<Term> results;
      const Term g = gamma.given() ? f.In(0) * f.In(4) : f.In(0);
      if (dx.given()) results.push_back(RowGradient(g, normalised, f.In(3), true));
      if (products.given()) results.push_back(f.In(0) * normalised);
      return results;
    }));
  }
  auto sum = [&](const Operand& each, const Operand& y) {
    const Operand to = y.desc.dims.rank() == 1 ? y : out.Temp(y.desc.dtype, {c});
    OpCall reduce;
    Reduce("ReduceSum", each, DType::kF32, to, {0, 2}, false, &reduce);
    calls.push_back(std::move(reduce));
    if (to.temp >= 0) calls.push_back(CallOf("Identity", {Reshaped(to, y.desc.dims)}, {y}));
  };
  if (products.given()) sum(products, wanted[1]);
  if (wanted[2].given()) sum(Reshaped(grad, {n, c, s}), wanted[2]);
  if (dx.temp >= 0) calls.push_back(CallOf("Identity", {dx}, {wanted[0]}));
  if (calls.empty()) return BadValue(call, "outputMask", "without a true value", "one or more");
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
