// Gradients of group normalisations, plain or with a swish behind, from the statistics that the forward pass
// saved.
#include "capi/adapters/norm/norm_args.h"

namespace opsnn::capi {
namespace {

using ll = long long;

struct GroupNormGrad {
  Operand dy, x, mean, rstd, gamma, beta;  // gamma may be absent, beta without a swish
  Operand dx, dgamma, dbeta;               // absent: not wanted
  int64_t n = 0, c = 0, s = 0, groups = 0;
  const char* group = nullptr;  // the parameter
  double swish = 0;             // y = z * sigmoid(swish * z) behind the normalisation; 0: nothing
};

Status CheckSizes(const Call& call, const GroupNormGrad& g) {
  if (g.groups < 1 || g.c < 0 || g.c % g.groups != 0) {
    return BadValue(call, g.group, std::to_string(g.groups),
                    StrFormat("divisors of %lld, which is C", ll{g.c}));
  }
  int64_t image, all;
  if (g.n < 0 || g.s < 0 || __builtin_mul_overflow(g.c, g.s, &image) ||
      __builtin_mul_overflow(g.n, image, &all)) {
    return BadValue(call, "N", std::to_string(g.n), "sizes of 0 or more whose product fits into 64 bits");
  }
  auto elements = [&](const Operand& o, int64_t count, const char* what) {
    if (!o.given() || NumElements(o.desc.dims) == count) return OkStatus();
    return InvalidArgument("%s: %s has shape %s; allowed: %lld elements, %s", call.function().api,
                           NameOf(call, o).c_str(), ToString(o.desc.dims).c_str(), ll{count}, what);
  };
  for (const Operand* o : {&g.dy, &g.x}) OPSNN_RETURN_IF_ERROR(elements(*o, all, "N * C * HxW"));
  for (const Operand* o : {&g.mean, &g.rstd})
    OPSNN_RETURN_IF_ERROR(elements(*o, g.n * g.groups, "N * group"));
  for (const Operand* o : {&g.gamma, &g.beta, &g.dgamma, &g.dbeta})
    OPSNN_RETURN_IF_ERROR(elements(*o, g.c, "C"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, g.dy, g.x.desc.dtype, NameOf(call, g.x).c_str()));
  return RequireLike(call, g.dx, g.x);
}

Status Bind(const GroupNormGrad& g, OpCall* out) {
  const Dims rows = {g.n, g.groups, g.c / g.groups, g.s}, image = {g.n, g.c, g.s};
  auto flat = [&](const Operand& o, const Dims& dims) { return Reshaped(Contiguously(o, out), dims); };
  auto each = [&](bool wanted) { return wanted ? out->Temp(DType::kF32, image) : Operand{}; };
  const Operand grad = flat(g.dy, rows), products = each(g.dgamma.given());
  // What dbeta sums up: dy, or dy through the swish.
  const Operand through = g.swish != 0 ? each(g.dbeta.given()) : Operand{};
  const bool copies = g.dx.given() && !g.dx.desc.IsContiguous();
  const Operand dx = copies ? out->Temp(g.x.desc.dtype, g.x.desc.dims) : g.dx;
  const Dims affine = {g.groups, g.c / g.groups, 1}, one = {g.n, g.groups, 1, 1};
  std::vector<OpCall> calls;
  std::vector<Operand> inputs = {grad, flat(g.x, rows), flat(g.mean, one), flat(g.rstd, one)}, outputs;
  if (g.gamma.given()) inputs.push_back(flat(g.gamma, affine));
  if (g.swish != 0) inputs.push_back(flat(g.beta, affine));
  for (const Operand* o : {&dx, &products, &through}) {
    if (o->given()) outputs.push_back(Reshaped(*o, rows));
  }
  if (!outputs.empty()) {
    calls.push_back(FormulaCall(std::move(inputs), std::move(outputs), 2, [&](ProgramBuilder&, Formula& f) {
      const Term normalised = (f.In(1) - f.In(2)) * f.In(3);
      Term dz = f.In(0);
      if (g.swish != 0) {
        const Term z = (normalised * f.In(4) + f.In(5)) * g.swish, sigmoid = Sigmoid(z);
        dz = dz * sigmoid * (z * (1.0 - sigmoid) + 1.0);
      }
      std::vector<Term> results;
      if (dx.given()) {
        results.push_back(RowGradient(g.gamma.given() ? dz * f.In(4) : dz, normalised, f.In(3), true));
      }
      if (products.given()) results.push_back(dz * normalised);
      if (through.given()) results.push_back(dz);
      return results;
    }));
  }
  auto sum = [&](const Operand& from, const Operand& y) {
    const Operand to = y.desc.dims.rank() == 1 ? y : out->Temp(y.desc.dtype, {g.c});
    OpCall reduce;
    Reduce("ReduceSum", from, DType::kF32, to, {0, 2}, false, &reduce);
    calls.push_back(std::move(reduce));
    if (to.temp >= 0) calls.push_back(CallOf("Identity", {Reshaped(to, y.desc.dims)}, {y}));
  };
  if (products.given()) sum(products, g.dgamma);
  if (g.dbeta.given()) sum(through.given() ? through : Reshaped(grad, image), g.dbeta);
  if (copies) calls.push_back(CallOf("Identity", {dx}, {g.dx}));
  return TakeAll(std::move(calls), out);
}

}  // namespace

Status Adapt_GroupNormGrad(const Call& call, OpCall& out) {
  GroupNormGrad g;
  g.dy = Arg(call, "gradOut"), g.x = Arg(call, "input"), g.gamma = Arg(call, "gamma");
  g.mean = Arg(call, "mean"), g.rstd = Arg(call, "rstd");
  std::vector<Operand> wanted;
  OPSNN_RETURN_IF_ERROR(ReadMask(call, {"gradInput", "gradGammaOut", "gradBetaOut"}, &wanted));
  g.dx = wanted[0], g.dgamma = wanted[1], g.dbeta = wanted[2];
  g.n = call.Int("N"), g.c = call.Int("C"), g.s = call.Int("HxW"), g.groups = call.Int("group");
  g.group = "group";
  OPSNN_RETURN_IF_ERROR(CheckSizes(call, g));
  if (!g.dx.given() && !g.dgamma.given() && !g.dbeta.given())
    return BadValue(call, "outputMask", "without a true value", "one or more");
  return Bind(g, &out);
}

Status Adapt_GroupNormSwishGrad(const Call& call, OpCall& out) {
  GroupNormGrad g;
  g.dy = Arg(call, "dy"), g.x = Arg(call, "x"), g.gamma = Arg(call, "gamma"), g.beta = Arg(call, "beta");
  g.mean = Arg(call, "mean"), g.rstd = Arg(call, "rstd");
  g.dx = Arg(call, "dxOut");
  if (call.Int("dgammaIsRequire") != 0) g.dgamma = Arg(call, "dgammaOut");
  if (call.Int("dbetaIsRequire") != 0) g.dbeta = Arg(call, "dbetaOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, g.dy, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, g.x, g.dy));
  g.n = g.dy.desc.dims[0], g.c = g.dy.desc.dims[1], g.s = 1;
  for (int i = 2; i < g.dy.desc.dims.rank(); ++i) g.s *= g.dy.desc.dims[i];
  g.groups = call.Int("numGroups"), g.group = "numGroups";
  for (const Operand* o : {&g.x, &g.mean, &g.rstd, &g.gamma, &g.beta, &g.dgamma, &g.dbeta})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, g.dy.desc.dtype, "dy"));
  OPSNN_RETURN_IF_ERROR(CheckSizes(call, g));
  g.swish = call.Double("swishScale");
  if (g.swish == 0) return BadValue(call, "swishScale", "0", "any other value");
  return Bind(g, &out);
}

}  // namespace opsnn::capi
