// Normalisations of rows with something before or behind: sums, adaptive scales, masked softmax. One row
// program each.
#include <algorithm>
#include <limits>

#include "capi/adapters/norm/norm_args.h"

namespace opsnn::capi {
namespace {

Status RequireStatistics(const Call& call, std::initializer_list<const Operand*> statistics,
                         const Dims& kept) {
  for (const Operand* o : statistics) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, kept, "with the normalised dims as 1"));
  }
  return OkStatus();
}

// A sum of two tensors, normalised: what AddLayerNorm and DeepNorm share. bias may be absent.
Status BindSumNorm(const Call& call, const Operand& x, const Operand& other, double alpha,
                   const Operand& bias, const Operand& sum, OpCall* out) {
  const Operand gamma = Arg(call, "gamma"), beta = Arg(call, "beta");
  const Operand y = Arg(call, "yOut"), mean = Arg(call, "meanOut"), rstd = Arg(call, "rstdOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireEpsilon(call, "epsilon"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, other, x));
  OPSNN_ASSIGN_OR_RETURN(const int rows, LastDims(call, x, gamma.desc.dims, "gamma"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, beta, gamma));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  if (sum.given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, sum, x));
  OPSNN_RETURN_IF_ERROR(RequireStatistics(call, {&mean, &rstd}, KeptDims(x, rows)));
  if (bias.given() && !(bias.desc.dims == x.desc.dims))
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, bias, gamma));
  const double eps = call.Double("epsilon");
  std::vector<Operand> inputs = {x, other, gamma, beta}, outputs = {y, mean, rstd};
  if (bias.given()) inputs.push_back(bias);
  if (sum.given()) outputs.push_back(sum);
  Take(FormulaCall(std::move(inputs), std::move(outputs), rows,
                   [&](ProgramBuilder& b, Formula& f) {
                     const Term first = alpha == 1 ? f.In(0) : f.In(0) * alpha;
                     Term s = first + f.In(1);
                     if (bias.given()) s = s + f.In(4);
                     const Normalised n = LayerNormOf(b, f, s, eps);
                     std::vector<Term> results = {n.y * f.In(2) + f.In(3), n.mean, n.rstd};
                     if (sum.given()) results.push_back(s);
                     return results;
                   }),
       out);
  return OkStatus();
}

}  // namespace

Status Adapt_AddLayerNorm(const Call& call, OpCall& out) {
  const Operand sum = call.Int("additionalOutput") != 0 ? Arg(call, "xOut") : Operand{};
  return BindSumNorm(call, Arg(call, "x1"), Arg(call, "x2"), 1, Arg(call, "biasOptional"), sum, &out);
}

Status Adapt_DeepNorm(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  for (const char* p : {"gx", "gamma", "beta", "yOut"}) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, Arg(call, p), x.desc.dtype, "x"));
  }
  return BindSumNorm(call, x, Arg(call, "gx"), call.Double("alpha"), {}, {}, &out);
}

Status Adapt_AdaLayerNorm(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireEpsilon(call, "epsilon"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "x"));
  OPSNN_ASSIGN_OR_RETURN(const Operand scale, PerSequence(call, "scale", x));
  OPSNN_ASSIGN_OR_RETURN(const Operand shift, PerSequence(call, "shift", x));
  const Operand weight = Arg(call, "weightOptional"), bias = Arg(call, "biasOptional");
  for (const Operand* o : {&scale, &shift}) OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "x"));
  for (const Operand* o : {&weight, &bias}) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {x.desc.dims.back()}, "the last dim of x"));
  }
  std::vector<Operand> inputs = {x, scale, shift}, outputs = {y};
  for (const Operand* o : {&weight, &bias}) {
    if (o->given()) inputs.push_back(*o);
  }
  const bool statistics = call.function().Find("meanOutOptional") >= 0;
  const Operand mean = statistics ? Arg(call, "meanOutOptional") : Operand{};
  const Operand rstd = statistics ? Arg(call, "rstdOutOptional") : Operand{};
  OPSNN_RETURN_IF_ERROR(RequireStatistics(call, {&mean, &rstd}, KeptDims(x, 1)));
  for (const Operand* o : {&mean, &rstd}) {
    if (o->given()) outputs.push_back(*o);
  }
  const double eps = call.Double("epsilon");
  Take(FormulaCall(std::move(inputs), std::move(outputs), 1,
                   [&](ProgramBuilder& b, Formula& f) {
                     const Normalised n = LayerNormOf(b, f, f.In(0), eps);
                     size_t next = 3;
                     Term z = n.y;
                     if (weight.given()) z = z * f.In(next++);
                     if (bias.given()) z = z + f.In(next);
                     std::vector<Term> results = {z * (f.In(1) + 1.0) + f.In(2)};
                     if (mean.given()) results.push_back(n.mean);
                     if (rstd.given()) results.push_back(n.rstd);
                     return results;
                   }),
       &out);
  return OkStatus();
}

Status Adapt_InstanceNorm(const Call& call, OpCall& out) {
  Operand x = Arg(call, "x"), y = Arg(call, "y"), mean = Arg(call, "mean"), variance = Arg(call, "variance");
  const Operand gamma = Arg(call, "gamma"), beta = Arg(call, "beta");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 4));
  OPSNN_RETURN_IF_ERROR(RequireEpsilon(call, "eps"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  for (const Operand* o : std::initializer_list<const Operand*>{&gamma, &beta, &y, &mean, &variance})
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, x.desc.dtype, "x"));
  const auto* text = static_cast<const char*>(call.arguments()[call.Index("dataFormat")].raw.p);
  const std::string_view format = text ? text : "";
  if (format != "NCHW" && format != "NHWC") {
    return BadValue(call, "dataFormat", "\"" + std::string(format) + "\"", "NCHW or NHWC");
  }
  Dims kept = x.desc.dims;
  for (int i : {1, 2, 3}) {
    if (i != (format == "NHWC" ? 3 : 1)) kept[i] = 1;
  }
  OPSNN_RETURN_IF_ERROR(RequireStatistics(call, {&mean, &variance}, kept));
  if (format == "NHWC") {
    const std::vector<int> order = {0, 3, 1, 2};
    x = Permuted(x, order), y = Permuted(y, order);
    mean = Permuted(mean, order), variance = Permuted(variance, order);
  }
  const int64_t channels = x.desc.dims[1];
  auto per_channel = [&](const Operand& o) {
    return WithView(o, {channels, 1, 1}, {StridesOf(o.desc)[0], 0, 0});
  };
  for (const Operand* o : {&gamma, &beta}) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {channels}, "one value per channel"));
  }
  const double eps = call.Double("eps");
  Take(FormulaCall({x, per_channel(gamma), per_channel(beta)}, {y, mean, variance}, 2,
                   [&](ProgramBuilder& b, Formula& f) {
                     const RowMoments m = AddRowMoments(b, f.In(0).slot);
                     const Term rstd = Rsqrt(Plus({&f, m.variance}, eps));
                     return std::vector<Term>{
                         Term{&f, m.centred} * rstd * f.In(1) + f.In(2), {&f, m.mean}, {&f, m.variance}};
                   }),
       &out);
  return OkStatus();
}

Status Adapt_Modulate(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 3, 3));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "self"));
  std::vector<Operand> inputs = {x};
  for (const char* p : {"scaleOptional", "shiftOptional"}) {
    if (!call.Given(p)) continue;
    OPSNN_ASSIGN_OR_RETURN(const Operand o, PerSequence(call, p, x));
    OPSNN_RETURN_IF_ERROR(RequireDType(call, o, x.desc.dtype, "self"));
    inputs.push_back(o);
  }
  const bool scale = call.Given("scaleOptional"), shift = call.Given("shiftOptional");
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     Term z = f.In(0);
                     if (scale) z = z * (f.In(1) + 1.0);
                     if (shift) z = z + f.In(scale ? 2 : 1);
                     return std::vector<Term>{z};
                   }),
       &out);
  return OkStatus();
}

// The sums go over the sequence, in f32.
Status Adapt_ModulateGrad(const Call& call, OpCall& out) {
  const Operand grad = Arg(call, "grad_output"), x = Arg(call, "input"), dx = Arg(call, "grad_input");
  const Operand dscale = Arg(call, "grad_scale"), dshift = Arg(call, "grad_shift");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, grad, 3, 3));
  for (const Operand* o : {&x, &dx}) {
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, grad));
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, grad.desc.dtype, "grad_output"));
  }
  const Dims& d = grad.desc.dims;
  for (const Operand* o : {&dscale, &dshift})
    OPSNN_RETURN_IF_ERROR(
        RequireShape(call, *o, {d[0], d[2]}, "that of grad_output without its sequence dim"));
  std::vector<Operand> inputs = {grad};
  std::vector<OpCall> calls;
  if (call.Given("scale")) {
    OPSNN_ASSIGN_OR_RETURN(const Operand scale, PerSequence(call, "scale", grad));
    inputs.push_back(scale);
    const Operand products = out.Temp(DType::kF32, d);
    calls.push_back(FormulaCall({grad, x}, {products}, 0, [](ProgramBuilder&, Formula& f) {
      return std::vector<Term>{f.In(0) * f.In(1)};
    }));
    OpCall sum;
    Reduce("ReduceSum", products, DType::kF32, dscale, {1}, false, &sum);
    calls.push_back(std::move(sum));
  }
  if (call.Given("shift")) {
    OpCall sum;
    Reduce("ReduceSum", grad, DType::kF32, dshift, {1}, false, &sum);
    calls.push_back(std::move(sum));
  }
  calls.push_back(FormulaCall(inputs, {dx}, 0, [&](ProgramBuilder&, Formula& f) {
    return std::vector<Term>{inputs.size() > 1 ? f.In(0) * f.In(1) : f.In(0)};
  }));
  return TakeAll(std::move(calls), &out);
}

namespace {

Term SoftmaxOf(Formula& f, Term z) {
  const Term e = Exp(z - f.Unary(StageOp::kRowMax, z));
  return e / RowSum(e);
}

// The value that stands for "masked" in front of the softmax; not -Inf, so that rows of nothing else are
// even.
constexpr double kMasked = -10000;

}  // namespace

namespace {

// What softmax and gradient share: x (or gradOutput), y for the gradient, and the result.
struct MaskedSoftmax {
  Operand x, y, mask, result;
  double scale = 1, masked = kMasked;

  OpCall Bind() const {
    std::vector<Operand> inputs = {x, mask};
    const bool gradient = y.given();
    if (gradient) inputs.push_back(y);
    return FormulaCall(std::move(inputs), {result}, 1, [&](ProgramBuilder&, Formula& f) {
      if (!gradient) return std::vector<Term>{SoftmaxOf(f, Select(f.In(1), masked, f.In(0) * scale))};
      const Term g = f.In(0), s = f.In(2);
      return std::vector<Term>{Select(f.In(1), 0.0, s * (g - RowSum(g * s)) * scale)};
    });
  }
};

// Rows [row, row + rows) and columns [column, column + columns) of the matrices of o.
Operand Part(Operand o, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  Dims dims = o.desc.dims;
  const Dims strides = StridesOf(o.desc);
  const int r = dims.rank();
  o.offset += row * strides[r - 2] + column * strides[r - 1];
  dims[r - 2] = rows, dims[r - 1] = columns;
  return WithView(std::move(o), dims, strides);
}

// Everything above the diagonal is masked, and exactly 0. Bands of rows look only at the columns that one of
// them may see: little more than half of the elements.
Status BindCausal(const Call& call, MaskedSoftmax m, OpCall* out) {
  constexpr int64_t kBands = 8, kLeastRows = 16;  // a call per band costs what some rows do
  constexpr int64_t kMost = int64_t{1} << 26;     // bytes of the masks, which planning fills
  const Dims& d = m.x.desc.dims;
  const int64_t rows = d[2], columns = d[3];
  if (rows > kMost / std::max<int64_t>(1, columns)) {
    return Errorf(Code::kNotImplemented, "%s: a causal mask for %lld rows of %lld; supported: %lld elements",
                  call.function().api, static_cast<long long>(rows), static_cast<long long>(columns),
                  static_cast<long long>(kMost));
  }
  m.masked = -std::numeric_limits<double>::infinity();
  const int64_t band = std::max(kLeastRows, (rows + kBands - 1) / kBands);
  std::vector<OpCall> calls;
  for (int64_t row = 0; row < rows || calls.empty(); row += band) {
    const int64_t n = std::min(band, rows - row), seen = std::min(columns, row + n);
    OPSNN_ASSIGN_OR_RETURN(const auto above, NewConstant(call, DType::kBool, {1, 1, n, seen}));
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < seen; ++c) above->as<uint8_t>()[r * seen + c] = c > row + r;
    }
    MaskedSoftmax part = m;
    part.mask = Constant(above);
    for (Operand* o : {&part.x, &part.y, &part.result})
      if (o->given()) *o = Part(*o, row, n, 0, seen);
    calls.push_back(part.Bind());
    if (seen == columns) continue;
    const Operand rest = Part(m.result, row, n, seen, columns - seen);
    calls.push_back(
        CallOf("Identity", {BroadcastView(ConstantFloat(0, rest.desc.dtype), rest.desc.dims)}, {rest}));
  }
  return TakeAll(std::move(calls), out);
}

}  // namespace

Status Adapt_ScaledMaskedSoftmax(const Call& call, OpCall& out) {
  const bool gradient = call.function().Find("gradOutput") >= 0;
  MaskedSoftmax m;
  m.x = Arg(call, gradient ? "gradOutput" : "x"), m.mask = Arg(call, "mask");
  m.result = Arg(call, gradient ? "out" : "y"), m.scale = call.Double("scale");
  if (gradient) m.y = Arg(call, "y");
  const char* fixed = gradient ? "fixTriuMask" : "fixedTriuMask";
  OPSNN_RETURN_IF_ERROR(RequireRank(call, m.x, 4, 4));
  for (const Operand* o : {&m.y, &m.result}) {
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, m.x));
    if (o->given())
      OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, m.x.desc.dtype, gradient ? "gradOutput" : "x"));
  }
  if (call.Int(fixed) != 0) return BindCausal(call, std::move(m), &out);
  if (!m.mask.given())
    return Errorf(Code::kNull, "%s: mask is null; %s is false", call.function().api, fixed);
  OPSNN_RETURN_IF_ERROR(RequireRank(call, m.mask, 4, 4));
  const auto both = BroadcastDims(m.mask.desc.dims, m.x.desc.dims);
  if (!both.ok() || !(*both == m.x.desc.dims)) {
    return InvalidArgument("%s: mask has shape %s; allowed: shapes that broadcast to %s", call.function().api,
                           ToString(m.mask.desc.dims).c_str(), ToString(m.x.desc.dims).c_str());
  }
  Take(m.Bind(), &out);
  return OkStatus();
}

Status Adapt_MaskedSoftmaxWithBias(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 4, 5));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, x.desc.dtype, "x"));
  const Dims& d = x.desc.dims;
  const int r = d.rank();
  const int64_t heads = d[r - 3], rows = d[r - 2], cols = d[r - 1];
  // [W, S1, S2] or with ones: as [W, 1, S1, S2] behind the batch.
  Operand mask = Arg(call, "attenMaskOptional"), bias = Arg(call, "relativePosBias");
  auto dense = [&](const Operand& o) { return Contiguously(o, &out); };
  if (NumElements(bias.desc.dims) != heads * rows * cols || bias.desc.dims.rank() < 3) {
    return InvalidArgument("%s: relativePosBias has shape %s; allowed: %s", call.function().api,
                           ToString(bias.desc.dims).c_str(), ToString(Dims{heads, rows, cols}).c_str());
  }
  bias = Reshaped(dense(bias), {heads, rows, cols});
  Operand from = dense(x), to = y;
  int64_t windows = 1, batches = r == 5 ? d[0] : 1, n = r == 5 ? d[1] : d[0];
  std::vector<Operand> inputs;
  if (mask.given()) {
    const Dims& m = mask.desc.dims;
    windows = NumElements(m) / std::max<int64_t>(1, rows * cols);
    const bool fits = m.rank() >= 3 && m[m.rank() - 2] == rows && m.back() == cols && windows > 0 &&
                      (r == 5 ? windows == n : n % windows == 0);
    if (!fits) {
      return InvalidArgument("%s: attenMaskOptional has shape %s; allowed: [W,%lld,%lld] with windows of x",
                             call.function().api, ToString(m).c_str(), static_cast<long long>(rows),
                             static_cast<long long>(cols));
    }
    mask = Reshaped(dense(mask), {windows, 1, rows, cols});
  }
  if (r == 4) batches = windows ? n / windows : 0;
  if (r == 5) windows = n;
  const Dims five = {batches, windows, heads, rows, cols};
  if (!y.desc.IsContiguous()) to = out.Temp(y.desc.dtype, d);
  inputs = {Reshaped(from, five), bias};
  if (mask.given()) inputs.push_back(mask);
  const double scale = call.Double("scaleValue");
  OpCall softmax = FormulaCall(inputs, {Reshaped(to, five)}, 1, [&](ProgramBuilder&, Formula& f) {
    Term z = f.In(0) * scale;
    if (mask.given()) z = z + f.In(2);
    return std::vector<Term>{SoftmaxOf(f, z + f.In(1))};
  });
  if (to.temp < 0) {
    Take(std::move(softmax), &out);
    return OkStatus();
  }
  out.first.push_back(std::move(softmax));
  out.op = op::FindOperator("Identity");
  out.inputs = {to};
  out.outputs = {y};
  return OkStatus();
}

}  // namespace opsnn::capi
