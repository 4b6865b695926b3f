// Gated units whose results are 8-bit integers, of floats or of the sums of quantised products: the scales of
// these, the unit, and the rounding are one program over rows. Values are rounded to the nearest even integer
// and saturate; NaN gives 0.
#include <cmath>
#include <functional>
#include <string>

#include "capi/adapters/formula_call.h"
#include "capi/adapters/gated.h"
#include "capi/adapters/quant/quant_args.h"

namespace opsnn::capi {
namespace {

// What the functions have in common. Operands that were not given are left out.
struct GatedQuant {
  Operand x, y, step;        // [.., 2 h], [.., h] and [..]
  Operand weight, bias;      // of x: broadcast with it
  Operand token;             // of x: one value per row, or one
  Operand factor, shift;     // of y: broadcast with it
  bool left = true;          // the activated half
  bool interleaved = false;  // halves are even and odd elements
  bool dynamic = true;       // each row by its largest magnitude, which becomes 127
  bool inverse = false;      // step is what values are multiplied with, not what they are divided by
  bool divides = false;      // static values are divided by the factor
  std::function<Term(Term gate, Term up)> unit;
};

Term Swiglu(Term gate, Term up) { return Silu(gate) * up; }

Status CheckShapes(const Call& call, const GatedQuant& g) {
  OPSNN_RETURN_IF_ERROR(RequireRank(call, g.x, 2, kMaxRank));
  Dims half = g.x.desc.dims;
  half[half.rank() - 1] /= 2;
  if (g.x.desc.dims.back() % 2 != 0 || NumElements(g.x.desc.dims) == 0)
    return BadValue(call, "x", "of shape " + ToString(g.x.desc.dims), "elements, an even number in a row");
  OPSNN_RETURN_IF_ERROR(RequireShape(call, g.y, half, "that of x with the last dim halved"));
  half.resize(half.rank() - 1);
  return RequireShape(call, g.step, half, "that of x without its last dim");
}

// A parameter with one value, or one for each element of a row of x or y (`columns`), or such a row for each
// group (`ends`: where these end; absent without groups).
Result<Operand> PerColumn(const Call& call, const Operand& o, const Operand& x, int64_t columns,
                          const Operand& ends, OpCall* out) {
  if (!o.given()) return o;
  const Dims& d = o.desc.dims;
  if (ends.given()) return RowsOfGroups(call, o, ends, x, columns, out);
  if (NumElements(d) == 1) return WithView(o, {1}, {0});
  const bool row = d == Dims{columns} || d == Dims{1, columns};
  if (row) return WithView(o, {columns}, {StridesOf(o.desc).back()});
  return BadValue(call, NameOf(call, o).c_str(), "of shape " + ToString(d),
                  StrFormat("one value, [%lld] or [1,%lld]", static_cast<long long>(columns),
                            static_cast<long long>(columns)));
}

// One value, or one for each row of x, with or without a last dim of 1.
Result<Operand> PerRow(const Call& call, const Operand& o, const Operand& x) {
  if (!o.given()) return o;
  if (NumElements(o.desc.dims) == 1) return WithView(o, {1}, {0});
  Dims rows = x.desc.dims, strides = StridesOf(o.desc);
  rows.resize(rows.rank() - 1);
  if (o.desc.dims.rank() == rows.rank()) strides.push_back(0);
  Dims column = rows;
  column.push_back(1);
  if (!(o.desc.dims == rows) && !(o.desc.dims == column)) {
    return BadValue(call, NameOf(call, o).c_str(), "of shape " + ToString(o.desc.dims),
                    ToString(rows) + ", one value per row of x");
  }
  strides[strides.rank() - 1] = 0;
  return WithView(o, column, strides);
}

// Operands in the order of the program's inputs; a position below 0 stands for none.
class Inputs {
 public:
  int Add(const Operand& o) {
    if (!o.given()) return -1;
    list_.push_back(o);
    return static_cast<int>(list_.size()) - 1;
  }
  std::vector<Operand> Take() { return std::move(list_); }

 private:
  std::vector<Operand> list_;
};

// Values as the last steps leave them: in 8 bits, and the step where there is one.
std::vector<Term> Quantised(const GatedQuant& g, ProgramBuilder& b, Formula& f, Term z, int factor,
                            int shift) {
  const auto in = [&](int i) { return f.In(static_cast<size_t>(i)); };
  if (factor >= 0) z = g.divides && !g.dynamic ? z / in(factor) : z * in(factor);
  if (!g.dynamic) return {Round(shift >= 0 ? z + in(shift) : z)};
  const Term most = f.Unary(StageOp::kRowMax, Abs(z)), full{&f, b.Const(kMostInt8, f.type(), true)};
  const Term step = g.inverse ? full / most : most / full;
  return {Round(g.inverse ? z * step : z / step), step};
}

Status Bind(const Call& call, GatedQuant g, OpCall* out) {
  if (g.bias.given() && g.bias.desc.dtype == DType::kS32) {  // integers add up as integers
    const Operand sum = out->Temp(DType::kS32, g.x.desc.dims);
    out->first.push_back(CallOf("Add", {g.x, BroadcastView(g.bias, g.x.desc.dims)}, {sum}));
    g.x = sum, g.bias = {};
  }
  Inputs inputs;
  struct Half {
    int x, weight, bias;
  } halves[2];
  for (int i = 0; i < 2; ++i) {
    const auto half = [&](const Operand& o) -> Result<Operand> {
      if (!o.given() || o.desc.dims.back() == 1) return o;
      OPSNN_ASSIGN_OR_RETURN(const Halves h, Cut(call, o, o.desc.dims.rank() - 1, g.interleaved));
      return i == 0 ? h.left : h.right;
    };
    OPSNN_ASSIGN_OR_RETURN(const Operand x, half(g.x));
    OPSNN_ASSIGN_OR_RETURN(const Operand weight, half(g.weight));
    OPSNN_ASSIGN_OR_RETURN(const Operand bias, half(g.bias));
    halves[i].x = inputs.Add(x), halves[i].weight = inputs.Add(weight), halves[i].bias = inputs.Add(bias);
  }
  const int token = inputs.Add(g.token), factor = inputs.Add(g.factor), shift = inputs.Add(g.shift);
  std::vector<Operand> outputs = {g.y};
  if (g.dynamic) {
    Dims dims = g.step.desc.dims, strides = StridesOf(g.step.desc);
    dims.push_back(1), strides.push_back(0);
    outputs.push_back(WithView(g.step, dims, strides));
  }
  Take(FormulaCall(inputs.Take(), std::move(outputs), g.dynamic ? 1 : 0,
                   [&](ProgramBuilder& b, Formula& f) {
                     const auto in = [&](int i) { return f.In(static_cast<size_t>(i)); };
                     const auto value = [&](const Half& h) {
                       Term v = in(h.x);
                       if (h.weight >= 0) v = v * in(h.weight);
                       if (token >= 0) v = v * in(token);
                       return h.bias >= 0 ? v + in(h.bias) : v;
                     };
                     const Term gate = value(halves[g.left ? 0 : 1]), up = value(halves[g.left ? 1 : 0]);
                     return Quantised(g, b, f, g.unit(gate, up), factor, shift);
                   }),
       out);
  return OkStatus();
}

Result<bool> IsDynamic(const Call& call, const char* param, const char* fallback) {
  const std::string mode = TextOf(call, param, fallback);
  if (mode != "dynamic" && mode != "static")
    return BadValue(call, param, "\"" + mode + "\"", "\"dynamic\", \"static\"");
  return mode == "dynamic";
}

Status RequireGiven(const Call& call, const char* param, const char* when) {
  if (call.Given(param)) return OkStatus();
  return Errorf(Code::kNull, "%s: %s is null; it is required where %s", call.function().api, param, when);
}

Status RequireNone(const Call& call, std::initializer_list<const char*> params, const char* when) {
  for (const char* p : params)
    if (call.Given(p)) return BadValue(call, p, "given", std::string("null where ") + when);
  return OkStatus();
}

// The parameters of the functions with Dequant in their names; groups are given by their sizes.
Status ReadDequant(const Call& call, GatedQuant* g, OpCall* out) {
  const int64_t columns = g->x.desc.dims.back();
  const Operand sizes = Arg(call, "groupIndexOptional");
  Operand ends;
  if (sizes.given()) {
    OPSNN_RETURN_IF_ERROR(RequireRank(call, sizes, 1, 1));
    ends = EndsOf(sizes, out);
  }
  const Operand bias = Arg(call, "biasOptional");
  OPSNN_ASSIGN_OR_RETURN(g->weight,
                         PerColumn(call, Arg(call, "weightScaleOptional"), g->x, columns, ends, out));
  OPSNN_ASSIGN_OR_RETURN(g->bias, PerColumn(call, bias, g->x, columns, ends, out));
  OPSNN_ASSIGN_OR_RETURN(g->token, PerRow(call, Arg(call, "activationScaleOptional"), g->x));
  OPSNN_ASSIGN_OR_RETURN(g->factor,
                         PerColumn(call, Arg(call, "quantScaleOptional"), g->x, columns / 2, ends, out));
  if (g->dynamic) return OkStatus();
  OPSNN_ASSIGN_OR_RETURN(g->shift,
                         PerColumn(call, Arg(call, "quantOffsetOptional"), g->x, columns / 2, ends, out));
  return OkStatus();
}

// The unit of swigluMode and its numbers.
Status ReadUnit(const Call& call, GatedQuant* g) {
  const int64_t mode = call.Int("swigluMode");
  if (mode < 0 || mode > 3) return BadValue(call, "swigluMode", std::to_string(mode), "0, 1, 2, 3");
  if (mode == 0) return OkStatus();
  const double limit = call.Double("clampLimit"), alpha = call.Double("gluAlpha"),
               bias = call.Double("gluBias");
  if (!(limit > 0) || std::isinf(limit))
    return BadValue(call, "clampLimit", StrFormat("%g", limit), "above 0 and finite");
  if (mode == 1 && !g->left) return BadValue(call, "activateLeft", "false", "true where swigluMode is 1");
  g->interleaved = mode == 1;
  g->unit = [=](Term gate, Term up) {
    const Term bounded = Clip(up, -limit, limit);
    if (mode == 3) return Min(Silu(gate), limit) * bounded;
    const Term capped = Min(gate, limit);
    return capped * Sigmoid(capped * alpha) * (bounded + bias);
  };
  return OkStatus();
}

}  // namespace

// aclnnSwiGluQuant and V2: step is 127 / the largest magnitude of the row.
Status Adapt_SwiGluQuant(const Call& call, OpCall& out) {
  GatedQuant g;
  g.x = Arg(call, "x"), g.y = Arg(call, "yOut"), g.step = Arg(call, "scaleOut");
  g.left = call.Int("activateLeft") != 0, g.inverse = true, g.unit = Swiglu;
  if (call.function().Find("dstType") >= 0) OPSNN_RETURN_IF_ERROR(RequireInt8(call));
  OPSNN_ASSIGN_OR_RETURN(g.dynamic, IsDynamic(call, "quantModeOptional", "dynamic"));
  OPSNN_RETURN_IF_ERROR(CheckShapes(call, g));
  Operand ends = Arg(call, "groupIndexOptional");
  if (call.function().Find("groupListType") >= 0) {
    const int64_t type = call.Int("groupListType");
    if (type != 0 && type != 1)
      return BadValue(call, "groupListType", std::to_string(type), "0 (ends), 1 (sizes)");
    if (ends.given()) OPSNN_RETURN_IF_ERROR(RequireRank(call, ends, 1, 1));
    if (ends.given() && type == 1) ends = EndsOf(ends, &out);
  }
  const int64_t columns = g.x.desc.dims.back() / 2;
  const Operand smooth = Arg(call, "smoothScalesOptional"), offsets = Arg(call, "offsetsOptional");
  OPSNN_ASSIGN_OR_RETURN(g.factor, PerColumn(call, smooth, g.x, columns, ends, &out));
  if (!g.dynamic) {
    if (offsets.given()) OPSNN_RETURN_IF_ERROR(RequireLike(call, offsets, smooth));
    OPSNN_ASSIGN_OR_RETURN(g.shift, PerColumn(call, offsets, g.x, columns, ends, &out));
  }
  return Bind(call, std::move(g), &out);
}

// aclnnDequantSwigluQuant and V2: step is the largest magnitude of the row / 127; static values are divided.
Status Adapt_DequantSwigluQuant(const Call& call, OpCall& out) {
  const bool second = call.function().Find("swigluMode") >= 0;
  GatedQuant g;
  g.x = Arg(call, "x"), g.y = Arg(call, "yOut"), g.step = Arg(call, "scaleOut");
  g.left = call.Int("activateLeft") != 0, g.divides = true, g.unit = Swiglu;
  OPSNN_ASSIGN_OR_RETURN(g.dynamic, IsDynamic(call, "quantModeOptional", "static"));
  OPSNN_RETURN_IF_ERROR(CheckShapes(call, g));
  if (g.x.desc.dtype == DType::kS32) {
    OPSNN_RETURN_IF_ERROR(RequireGiven(call, "weightScaleOptional", "x has dtype s32"));
  } else {
    OPSNN_RETURN_IF_ERROR(RequireNone(
        call, {"weightScaleOptional", "activationScaleOptional", "biasOptional"}, "x is of floats"));
  }
  if (second) {
    OPSNN_RETURN_IF_ERROR(RequireInt8(call));
    const std::string rounding = TextOf(call, "roundModeOptional", "rint");
    if (rounding != "rint")
      return BadValue(call, "roundModeOptional", "\"" + rounding + "\"", "\"rint\" to int8");
    const int rank = g.x.desc.dims.rank();
    OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "activateDim", call.Int("activateDim"), rank));
    if (dim != rank - 1) {
      return Errorf(Code::kNotImplemented, "%s: activateDim is %d; supported: %d, the last dim of x",
                    call.function().api, dim, rank - 1);
    }
    if (!g.dynamic) {
      for (const char* p : {"quantScaleOptional", "quantOffsetOptional"})
        OPSNN_RETURN_IF_ERROR(RequireGiven(call, p, "quantModeOptional is \"static\""));
    }
    OPSNN_RETURN_IF_ERROR(ReadUnit(call, &g));
  }
  OPSNN_RETURN_IF_ERROR(ReadDequant(call, &g, &out));
  return Bind(call, std::move(g), &out);
}

// beta tanh(gate / beta) sigmoid(gate), times the other half, held by a tanh of its own.
Status Adapt_DequantSituQuant(const Call& call, OpCall& out) {
  GatedQuant g;
  g.x = Arg(call, "x"), g.y = Arg(call, "yOut"), g.step = Arg(call, "yScaleOut");
  g.left = call.Int("activateLeft") != 0, g.divides = true;
  OPSNN_ASSIGN_OR_RETURN(g.dynamic, IsDynamic(call, "quantTypeOptional", "dynamic"));
  OPSNN_RETURN_IF_ERROR(CheckShapes(call, g));
  const double beta = call.Double("beta"), linear = call.Double("linearBeta");
  if (!(std::abs(beta) > 0)) return BadValue(call, "beta", StrFormat("%g", beta), "a number, not 0");
  g.unit = [=](Term gate, Term up) {
    const Term held = linear > 0 ? Tanh(up / linear) * linear : up;
    return Tanh(gate / beta) * beta * Sigmoid(gate) * held;
  };
  if (!g.dynamic)
    OPSNN_RETURN_IF_ERROR(RequireGiven(call, "quantScaleOptional", "quantTypeOptional is \"static\""));
  if (g.x.desc.dtype == DType::kS8) {
    OPSNN_RETURN_IF_ERROR(RequireGiven(call, "weightScaleOptional", "x has dtype s8"));
    OPSNN_RETURN_IF_ERROR(
        RequireNone(call, {"activationScaleOptional", "groupIndexOptional"}, "x has dtype s8"));
  } else if (g.x.desc.dtype == DType::kS32) {
    for (const char* p : {"weightScaleOptional", "activationScaleOptional"})
      OPSNN_RETURN_IF_ERROR(RequireGiven(call, p, "x has dtype s32"));
    OPSNN_RETURN_IF_ERROR(
        RequireNone(call, {"quantScaleOptional", "quantOffsetOptional"}, "x has dtype s32"));
  } else {
    OPSNN_RETURN_IF_ERROR(RequireNone(call,
                                      {"weightScaleOptional", "activationScaleOptional", "biasOptional",
                                       "quantScaleOptional", "quantOffsetOptional"},
                                      "x is of floats"));
  }
  OPSNN_RETURN_IF_ERROR(ReadDequant(call, &g, &out));
  return Bind(call, std::move(g), &out);
}

// Sums of a quantised product as floats: a bias of integers is added to the sums, one of floats behind the
// scales.
Status Adapt_DequantBias(const Call& call, OpCall& out) {
  Operand x = Arg(call, "x"), token = Arg(call, "activateScaleOptional"), bias = Arg(call, "biasOptional");
  const Operand y = Arg(call, "out"), weight = Arg(call, "weightScale");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  const int64_t m = x.desc.dims[0], n = x.desc.dims[1];
  OPSNN_ASSIGN_OR_RETURN(const DType want, DTypeParam(call, "outputDtype"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, want, "outputDtype"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, weight, {n}, "one value per column"));
  if (bias.given()) OPSNN_RETURN_IF_ERROR(RequireShape(call, bias, {n}, "one value per column"));
  if (token.given()) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, token, {m}, "one value per row"));
    token = WithView(token, {m, 1}, {StridesOf(token.desc)[0], 0});
  }
  if (bias.given() && bias.desc.dtype == DType::kS32) {
    const Operand sum = out.Temp(DType::kS32, x.desc.dims);
    out.first.push_back(CallOf("Add", {x, BroadcastView(bias, x.desc.dims)}, {sum}));
    x = sum, bias = {};
  }
  Inputs inputs;
  inputs.Add(x), inputs.Add(weight);
  const int by_row = inputs.Add(token), added = inputs.Add(bias);
  Take(FormulaCall(inputs.Take(), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     Term z = f.In(0) * f.In(1);
                     if (by_row >= 0) z = z * f.In(static_cast<size_t>(by_row));
                     if (added >= 0) z = z + f.In(static_cast<size_t>(added));
                     return std::vector<Term>{z};
                   }),
       &out);
  return OkStatus();
}

}  // namespace opsnn::capi
