// Gradients of normalisations, from the statistics that the forward pass saved. The gradient of the input is
// a row program; those of the parameters are sums over the rows, in f32.
#include "capi/adapters/norm/norm_args.h"

namespace opsnn::capi {
namespace {

using ll = long long;

// What the layer and RMS functions share. x may be a sum of two tensors, the first times alpha.
struct RowNormGrad {
  Operand dy, x, x2, gamma, mean, rstd;  // x2, gamma and mean may be absent
  Operand dsum;                          // added to the gradient; may be absent
  double alpha = 1;                      // of x where there is x2
  Operand dx, dx_scaled, dgamma, dbeta;  // dx_scaled: alpha * dx
  Operand step, zero;                    // dx as s8: dx / step or dx * step, plus zero; may be absent
  bool divides = true;
};

Term Quantised(const RowNormGrad& n, Term dx, Term step, Formula& f, size_t zero) {
  Term z = n.divides ? dx / step : dx * step;
  if (n.zero.given()) z = z + f.In(zero);
  return Round(z);
}

// The operator with both loops over a row in one, where there is nothing more to add.
bool FitsOperator(const RowNormGrad& n) {
  const DType t = n.x.desc.dtype;
  return !n.x2.given() && !n.dsum.given() && !n.step.given() && !n.dx_scaled.given() && n.alpha == 1 &&
         n.dy.desc.dtype == t && (!n.dx.given() || n.dx.desc.dtype == t) && (t == DType::kF32 || IsHalf(t));
}
OpCall OperatorCall(const RowNormGrad& n, int rows) {
  const auto wide = [](const Operand& o) { return o.given() ? WithDType(o, DType::kF32) : o; };
  OpCall c = CallOf("RowNormGrad", {n.dy, n.x, wide(n.rstd), wide(n.mean), wide(n.gamma)},
                    {n.dx, wide(n.dgamma), wide(n.dbeta)});
  c.attrs.Set("axis", int64_t{n.x.desc.dims.rank() - rows});
  return c;
}

Status Bind(const RowNormGrad& n, int rows, OpCall* out) {
  if (FitsOperator(n)) {
    Take(OperatorCall(n, rows), out);
    return OkStatus();
  }
  std::vector<Operand> inputs, outputs;
  auto add = [&](const Operand& o) {
    if (o.given()) inputs.push_back(o);
    return inputs.size() - 1;
  };
  const size_t dy = add(n.dy), x = add(n.x), rstd = add(n.rstd), x2 = add(n.x2), gamma = add(n.gamma),
               mean = add(n.mean), dsum = add(n.dsum), step = add(n.step), zero = add(n.zero);
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
            if (n.step.given()) dx = Quantised(n, dx, f.In(step), f, zero);
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

Status Adapt_RmsNormGradQuant(const Call& call, OpCall& out) {
  RowNormGrad n;
  n.dy = Arg(call, "dy"), n.x = Arg(call, "x"), n.gamma = Arg(call, "gamma");
  n.dx = Arg(call, "dxOut"), n.dgamma = Arg(call, "dgammaOut");
  n.step = Arg(call, "scalesX"), n.zero = Arg(call, "offsetXOptional");
  n.divides = call.Int("divMode") != 0;
  const auto* mode = static_cast<const char*>(call.arguments()[call.Index("quantMode")].raw.p);
  if (!mode || std::string_view(mode) != "static")
    return BadValue(call, "quantMode", mode ? "\"" + std::string(mode) + "\"" : "null", "\"static\"");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, n.x, 2, kMaxRank));
  OPSNN_ASSIGN_OR_RETURN(const int rows, LastDims(call, n.x, n.gamma.desc.dims, "gamma"));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, n.dy, n.x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, n.dx, n.x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, n.dgamma, n.gamma));
  for (const Operand* o : {&n.gamma, &n.step}) {
    if (o->desc.dtype != DType::kF32) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, n.dy.desc.dtype, "dy"));
  }
  for (const Operand* o : {&n.step, &n.zero}) OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {1}, "one value"));
  OPSNN_ASSIGN_OR_RETURN(n.rstd, PerRow(call, "rstd", n.x, rows));
  return Bind(n, rows, &out);
}

// The gradients of z * (1 + scale) + shift, z = normalised * weight + bias. scale and shift are shared by a
// sequence, weight and bias by all rows.
Status Adapt_AdaLayerNormGrad(const Call& call, OpCall& out) {
  const Operand dy = Arg(call, "gradOut"), x = Arg(call, "input");
  const Operand weight = Arg(call, "weightOptional"), bias = Arg(call, "biasOptional");
  const Operand dx = Arg(call, "gradInputOut"), dscale = Arg(call, "gradScaleOut"),
                dshift = Arg(call, "gradShiftOut"), dweight = Arg(call, "gradWeightOut"),
                dbias = Arg(call, "gradBiasOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  const int64_t columns = x.desc.dims.back();
  if (call.Ints("normalizedShape") != std::vector<int64_t>{columns})
    return BadValue(call, "normalizedShape", "another", ToString(Dims{columns}) + ", the last dim of input");
  for (const Operand* o : {&dy, &dx}) OPSNN_RETURN_IF_ERROR(RequireLike(call, *o, x));
  OPSNN_ASSIGN_OR_RETURN(const Operand mean, PerRow(call, "mean", x, 1));
  OPSNN_ASSIGN_OR_RETURN(const Operand rstd, PerRow(call, "rstd", x, 1));
  OPSNN_ASSIGN_OR_RETURN(const Operand scale, PerSequence(call, "scale", x));
  OPSNN_ASSIGN_OR_RETURN(const Operand shift, PerSequence(call, "shift", x));
  for (const Operand* o : {&mean, &rstd, &scale, &shift, &dscale, &dshift}) {
    const bool statistic = o == &mean || o == &rstd;
    if (statistic && o->desc.dtype == DType::kF32) continue;
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "input"));
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, dscale, Arg(call, "scale")));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, dshift, Arg(call, "shift")));
  for (const Operand* o : {&weight, &bias, &dweight, &dbias}) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {columns}, "normalizedShape"));
    if (o->given() && o->desc.dtype != DType::kF32)
      OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "input"));
    if (weight.given()) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, weight.desc.dtype, "weightOptional"));
  }
  // What is summed up afterwards, one value per element; the sum over a sequence of dy needs no copy.
  auto each = [&](const Operand& wanted) {
    return wanted.given() ? out.Temp(DType::kF32, x.desc.dims) : Operand{};
  };
  const Operand by_scale = each(dscale), by_weight = each(dweight), by_bias = each(dbias);
  std::vector<Operand> inputs = {dy, x, mean, rstd, scale}, outputs;
  for (const Operand* o : {&weight, &bias}) {
    if (o->given()) inputs.push_back(*o);
  }
  for (const Operand* o : {&dx, &by_scale, &by_weight, &by_bias}) {
    if (o->given()) outputs.push_back(*o);
  }
  std::vector<OpCall> calls;
  if (!outputs.empty()) {
    calls.push_back(FormulaCall(std::move(inputs), std::move(outputs), 1, [&](ProgramBuilder&, Formula& f) {
      const Term g = f.In(0), normalised = (f.In(1) - f.In(2)) * f.In(3), scaled = g * (f.In(4) + 1.0);
      std::vector<Term> results;
      if (dx.given()) {
        results.push_back(RowGradient(weight.given() ? scaled * f.In(5) : scaled, normalised, f.In(3), true));
      }
      if (by_scale.given()) {
        Term z = weight.given() ? normalised * f.In(5) : normalised;
        if (bias.given()) z = z + f.In(weight.given() ? 6 : 5);
        results.push_back(g * z);
      }
      if (by_weight.given()) results.push_back(scaled * normalised);
      if (by_bias.given()) results.push_back(scaled);
      return results;
    }));
  }
  auto over_sequence = [&](const Operand& from, const Operand& y) {
    const int64_t dim = x.desc.dims.rank() - 2;
    OpCall sum;
    Reduce("ReduceSum", from, DType::kF32, y, {dim}, y.desc.dims.rank() == x.desc.dims.rank(), &sum);
    calls.push_back(std::move(sum));
  };
  if (dscale.given()) over_sequence(by_scale, dscale);
  if (dshift.given()) over_sequence(dy, dshift);
  if (dweight.given()) calls.push_back(SumOverRows(by_weight, 1, dweight));
  if (dbias.given()) calls.push_back(SumOverRows(by_bias, 1, dbias));
  if (calls.empty())
    return Errorf(Code::kNull, "%s: every gradient is null; allowed: one or more", call.function().api);
  return TakeAll(std::move(calls), &out);
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
  if (!wanted[0].given() && !wanted[1].given() && !wanted[2].given())
    return BadValue(call, "outputMask", "without a true value", "one or more");
  Operand rstd = WithDType(spread, DType::kF32);
  if (!training) {
    const double eps = call.Double("eps");
    rstd = out.Temp(DType::kF32, {ch.c});
    out.first.push_back(FormulaCall({spread}, {rstd}, 0, [&](ProgramBuilder&, Formula& f) {
      return std::vector<Term>{Rsqrt(f.In(0) + eps)};
    }));
  }
  const auto wide = [](const Operand& o) { return o.given() ? WithDType(o, DType::kF32) : o; };
  OpCall grad = CallOf("PlaneNormGrad", {dy, x, wide(mean), rstd, wide(weight)},
                       {wanted[0], wide(wanted[1]), wide(wanted[2])});
  grad.attrs.Set("training", int64_t{training});
  Take(std::move(grad), &out);
  return OkStatus();
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

}  // namespace opsnn::capi
