// Normalised rows as s8: y / scale or y * scale plus a zero point (static), or y * smooth divided by a step
// of its row's own that makes the largest magnitude 127 (dynamic). One row program each; values are rounded
// to the nearest even integer and saturate, NaN gives 0.
#include <string>

#include "capi/adapters/norm/norm_args.h"

namespace opsnn::capi {
namespace {

constexpr double kMostInt8 = 127;
constexpr int kAclInt8 = 2;

// One quantised form of the rows; absent where y is.
struct Lane {
  Operand scale, zero;  // dynamic: scale is the smoothing factor, and there is no zero point
  Operand y, step;      // dynamic: step is one value per row
};

// What the functions share. Of the operands all but x may be absent.
struct QuantisedRows {
  Operand x, x2, bias;   // the rows are those of their sum
  Operand gamma, beta;   // beta is also the shift of an adaptive normalisation
  Operand scale, shift;  // adaptive: y * (1 + scale) + shift
  bool centred = true;   // LayerNorm; false: RMS
  bool dynamic = false, divides = true;
  double eps = 0;
  int rows = 1;  // dims of a row
  Lane lanes[2];
  Operand sum, plain, result, rstd;  // x + x2 + bias; the normalised rows without and with beta

  OpCall Bind() const;
};

OpCall QuantisedRows::Bind() const {
  std::vector<Operand> inputs, outputs;
  auto add = [&](const Operand& o) {
    if (o.given()) inputs.push_back(o);
    return inputs.size() - 1;
  };
  const size_t at_x2 = (add(x), add(x2)), at_bias = add(bias), at_gamma = add(gamma), at_beta = add(beta),
               at_scale = add(scale), at_shift = add(shift);
  size_t at_lane[2], at_zero[2];
  for (int i : {0, 1}) {
    const bool here = lanes[i].y.given();
    at_lane[i] = here ? add(lanes[i].scale) : 0;
    at_zero[i] = here ? add(lanes[i].zero) : 0;
    if (here) outputs.push_back(lanes[i].y);
    if (here && dynamic) outputs.push_back(lanes[i].step);
  }
  for (const Operand* o : {&sum, &plain, &result, &rstd}) {
    if (o->given()) outputs.push_back(*o);
  }
  auto formula = [&](ProgramBuilder& b, Formula& f) {
    Term s = f.In(0);
    if (x2.given()) s = s + f.In(at_x2);
    if (bias.given()) s = s + f.In(at_bias);
    Term y = s, factor = s;
    if (centred) {
      const Normalised n = LayerNormOf(b, f, s, eps);
      y = n.y, factor = n.rstd;
    } else {
      factor = RootMeanSquare(s, eps);
      y = s * factor;
    }
    if (gamma.given()) y = y * f.In(at_gamma);
    const Term before = y;
    if (beta.given()) y = y + f.In(at_beta);
    if (scale.given()) y = y * (f.In(at_scale) + 1.0) + f.In(at_shift);
    std::vector<Term> results;
    for (int i : {0, 1}) {
      const Lane& lane = lanes[i];
      if (!lane.y.given()) continue;
      Term z = y;
      if (dynamic) {
        if (lane.scale.given()) z = z * f.In(at_lane[i]);
        const Term most{&f, b.Const(kMostInt8, f.type(), true)};
        const Term step = f.Unary(StageOp::kRowMax, Abs(z)) / most;
        results.push_back(Round(z / step));
        results.push_back(step);
        continue;
      }
      z = divides ? z / f.In(at_lane[i]) : z * f.In(at_lane[i]);
      if (lane.zero.given()) z = z + f.In(at_zero[i]);
      results.push_back(Round(z));
    }
    if (sum.given()) results.push_back(s);
    if (plain.given()) results.push_back(before);
    if (result.given()) results.push_back(y);
    if (rstd.given()) results.push_back(factor);
    return results;
  };
  return FormulaCall(std::move(inputs), std::move(outputs), rows, formula);
}

std::string Text(const Call& call, const char* param) {
  const auto* text = static_cast<const char*>(call.arguments()[call.Index(param)].raw.p);
  return text ? text : "";
}

Status RequireDTypes(const Call& call, std::initializer_list<const Operand*> operands, const Operand& like) {
  for (const Operand* o : operands) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, *o, like.desc.dtype, NameOf(call, like).c_str()));
  }
  return OkStatus();
}

// Static scales: of the type of x or f32. Zero points: integers, or of the type of the scale.
Status CheckLaneTypes(const Call& call, const Lane& lane, const Operand& x) {
  if (lane.scale.given() && lane.scale.desc.dtype != DType::kF32)
    OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&lane.scale}, x));
  if (lane.zero.given() && IsFloat(lane.zero.desc.dtype))
    OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&lane.zero}, lane.scale));
  return OkStatus();
}

// A scale or zero point of rows of x: of the shape of gamma, or one value.
Result<Operand> RowScale(const Call& call, const char* param, const Operand& x, const Operand& gamma) {
  const Operand o = Arg(call, param);
  if (!o.given() || o.desc.dims == Dims{1}) return o;
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, o, gamma));
  return RowWeight(call, param, x);
}

// The tensors that hold a sum of two, as far as the call gives them.
Status CheckSum(const Call& call, const QuantisedRows& q) {
  OPSNN_RETURN_IF_ERROR(RequireEpsilon(call, "epsilon"));
  for (const Operand* o : {&q.x2, &q.sum, &q.plain, &q.result})
    OPSNN_RETURN_IF_ERROR(RequireLike(call, *o, q.x));
  return OkStatus();
}

Status CheckLaneOutputs(const Call& call, QuantisedRows* q, const char* y, const char* step, int lane) {
  q->lanes[lane].y = Arg(call, y);
  for (const char* p : {y, q->dynamic ? step : y}) {
    if (!call.Given(p)) return Errorf(Code::kNull, "%s: %s is null; it is a result", call.function().api, p);
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, q->lanes[lane].y, q->x));
  if (!q->dynamic) return OkStatus();
  OPSNN_ASSIGN_OR_RETURN(q->lanes[lane].step, PerRow(call, step, q->x, 1));
  return OkStatus();
}

}  // namespace

// y = x / rms(x) * gamma + beta, quantised by one scale or one per column.
Status Adapt_RmsNormQuant(const Call& call, OpCall& out) {
  const bool third = call.function().Find("divMode") >= 0;
  QuantisedRows q;
  q.centred = false;
  q.x = Arg(call, "x"), q.eps = call.Double("epsilon");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, q.x, 1, kMaxRank));
  const Operand gamma = Arg(call, "gamma"), beta = Arg(call, "beta");
  for (const Operand* o : {&gamma, &beta}) {
    if (o->given()) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 1, 2));
  }
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&gamma, &beta}, q.x));
  OPSNN_ASSIGN_OR_RETURN(q.gamma, RowWeight(call, "gamma", q.x));
  if (beta.given()) {
    OPSNN_ASSIGN_OR_RETURN(q.beta, RowWeight(call, "beta", q.x));
  }
  Lane& lane = q.lanes[0];
  lane.scale = Arg(call, "scale"), lane.zero = Arg(call, "offset");
  const int64_t columns = q.x.desc.dims.back();
  if (!third || !(lane.scale.desc.dims == Dims{columns}))
    OPSNN_RETURN_IF_ERROR(
        RequireShape(call, lane.scale, {1}, third ? "or one value per column" : "one value"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, lane.zero, lane.scale));
  OPSNN_RETURN_IF_ERROR(CheckLaneTypes(call, lane, q.x));
  OPSNN_RETURN_IF_ERROR(CheckSum(call, q));
  OPSNN_RETURN_IF_ERROR(CheckLaneOutputs(call, &q, "y", nullptr, 0));
  q.rows = q.gamma.desc.dims.rank();
  if (third) {
    q.divides = call.Int("divMode") != 0;
    const Operand rstd = Arg(call, "rstd");
    if (call.Int("outputRstd") != 0) {
      if (!rstd.given())
        return Errorf(Code::kNull, "%s: rstd is null; outputRstd asks for it", call.function().api);
      OPSNN_RETURN_IF_ERROR(RequireShape(call, rstd, KeptDims(q.x, 1), "with the last dim as 1"));
      q.rstd = rstd;
    }
  }
  Take(q.Bind(), &out);
  return OkStatus();
}

Status Adapt_RmsNormDynamicQuant(const Call& call, OpCall& out) {
  QuantisedRows q;
  q.centred = false, q.dynamic = true;
  q.x = Arg(call, "x"), q.eps = call.Double("epsilon");
  q.gamma = Arg(call, "gamma"), q.beta = Arg(call, "betaOptional");
  q.lanes[0].scale = Arg(call, "smoothScalesOptional");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, q.x, 2, kMaxRank));
  if (call.Int("dstType") != kAclInt8)
    return BadValue(call, "dstType", std::to_string(call.Int("dstType")), "2 (int8)");
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&q.gamma, &q.beta, &q.lanes[0].scale}, q.x));
  for (const Operand* o : {&q.gamma, &q.beta, &q.lanes[0].scale})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {q.x.desc.dims.back()}, "the last dim of x"));
  OPSNN_RETURN_IF_ERROR(CheckSum(call, q));
  OPSNN_RETURN_IF_ERROR(CheckLaneOutputs(call, &q, "yOut", "scaleOut", 0));
  Take(q.Bind(), &out);
  return OkStatus();
}

// aclnnAddRmsNormQuant and V2. The second form is there where scales2 is.
Status Adapt_AddRmsNormQuant(const Call& call, OpCall& out) {
  QuantisedRows q;
  q.centred = false;
  q.x = Arg(call, "x1"), q.x2 = Arg(call, "x2"), q.sum = Arg(call, "xOut");
  q.eps = call.Double("epsilon"), q.divides = call.Int("divMode") != 0;
  const bool second = call.function().Find("rmsNormOut") >= 0;
  if (second) q.plain = Arg(call, "rmsNormOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, q.x, 1, kMaxRank));
  const Operand gamma = Arg(call, "gamma");
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&gamma}, q.x));
  OPSNN_ASSIGN_OR_RETURN(q.gamma, RowWeight(call, "gamma", q.x));
  q.rows = q.gamma.desc.dims.rank();
  if (second && call.Given("betaOptional")) {
    const Operand beta = Arg(call, "betaOptional");
    OPSNN_RETURN_IF_ERROR(RequireLike(call, beta, gamma));
    OPSNN_ASSIGN_OR_RETURN(q.beta, RowWeight(call, "betaOptional", q.x));
  }
  OPSNN_RETURN_IF_ERROR(CheckSum(call, q));
  const struct {
    const char *scale, *zero, *y;
  } kLanes[] = {{"scales1", "zeroPoints1Optional", "y1Out"},
                {"scales2Optional", "zeroPoints2Optional", "y2Out"}};
  for (int i : {0, 1}) {
    Lane& lane = q.lanes[i];
    OPSNN_ASSIGN_OR_RETURN(lane.scale, RowScale(call, kLanes[i].scale, q.x, gamma));
    OPSNN_ASSIGN_OR_RETURN(lane.zero, RowScale(call, kLanes[i].zero, q.x, gamma));
    if (!lane.scale.given()) {
      lane.zero = {};
      continue;
    }
    OPSNN_RETURN_IF_ERROR(CheckLaneTypes(call, lane, q.x));
    OPSNN_RETURN_IF_ERROR(CheckLaneOutputs(call, &q, kLanes[i].y, nullptr, i));
  }
  Take(q.Bind(), &out);
  return OkStatus();
}

namespace {

// Which of the two dynamic forms are wanted: by a mask, or the second where both factors are.
Status WantedLanes(const Call& call, const Operand& smooth1, const Operand& smooth2, bool wanted[2]) {
  wanted[0] = true, wanted[1] = smooth1.given() && smooth2.given();
  const bool masked = call.function().Find("outputMask") >= 0 && call.Given("outputMask");
  if (!masked) {
    if (!smooth2.given() || smooth1.given()) return OkStatus();
    return BadValue(call, "smoothScale2Optional", "given", "null, as smoothScale1Optional is");
  }
  const auto& mask =
      static_cast<const BoolArray*>(call.arguments()[call.Index("outputMask")].object.get())->values;
  if (mask.size() != 2) return BadValue(call, "outputMask", StrFormat("a list of %zu", mask.size()), "2");
  for (int i : {0, 1}) {
    wanted[i] = mask[static_cast<size_t>(i)] != 0;
    const Operand& smooth = i ? smooth2 : smooth1;
    if (!wanted[i] && smooth.given())
      return BadValue(call, NameOf(call, smooth).c_str(), "given", "null, as outputMask leaves it out");
  }
  if (wanted[0] || wanted[1]) return OkStatus();
  return BadValue(call, "outputMask", "without a true value", "one or two");
}

}  // namespace

Status Adapt_AddRmsNormDynamicQuant(const Call& call, OpCall& out) {
  QuantisedRows q;
  q.centred = false, q.dynamic = true;
  q.x = Arg(call, "x1"), q.x2 = Arg(call, "x2"), q.sum = Arg(call, "xOut");
  q.eps = call.Double("epsilon"), q.gamma = Arg(call, "gamma");
  if (call.function().Find("betaOptional") >= 0) q.beta = Arg(call, "betaOptional");
  Operand smooth[2] = {Arg(call, "smoothScale1Optional"), Arg(call, "smoothScale2Optional")};
  OPSNN_RETURN_IF_ERROR(RequireRank(call, q.x, 2, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&q.gamma, &q.beta, &smooth[0], &smooth[1]}, q.x));
  for (const Operand* o : {&q.gamma, &q.beta, &smooth[0], &smooth[1]})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {q.x.desc.dims.back()}, "the last dim of x1"));
  OPSNN_RETURN_IF_ERROR(CheckSum(call, q));
  bool wanted[2];
  OPSNN_RETURN_IF_ERROR(WantedLanes(call, smooth[0], smooth[1], wanted));
  for (int i : {0, 1}) {
    if (!wanted[i]) continue;
    q.lanes[i].scale = smooth[i];
    OPSNN_RETURN_IF_ERROR(
        CheckLaneOutputs(call, &q, i ? "y2Out" : "y1Out", i ? "scale2Out" : "scale1Out", i));
  }
  Take(q.Bind(), &out);
  return OkStatus();
}

namespace {

// Which of scales and zero points may be given together.
Status CheckLayerQuantOptions(const Call& call, bool dynamic) {
  const bool s1 = call.Given("scales1Optional"), s2 = call.Given("scales2Optional"),
             z1 = call.Given("zeroPoints1Optional"), z2 = call.Given("zeroPoints2Optional");
  auto given = [](bool b) { return b ? "given" : "null"; };
  if (dynamic && (z1 || z2))
    return BadValue(call, z1 ? "zeroPoints1Optional" : "zeroPoints2Optional", "given",
                    "null where quantMode is \"dynamic\"");
  if (!s1 && (s2 || !dynamic))
    return BadValue(call, "scales1Optional", "null",
                    s2 ? "given, as scales2Optional is"
                       : "given where "
                         "quantMode is \"static\"");
  if (z2 != (z1 && s2))
    return BadValue(call, "zeroPoints2Optional", given(z2), StrFormat("%s here", given(z1 && s2)));
  return OkStatus();
}

}  // namespace

// aclnnAddLayerNormQuant and V2.
Status Adapt_AddLayerNormQuant(const Call& call, OpCall& out) {
  QuantisedRows q;
  q.x = Arg(call, "x1"), q.x2 = Arg(call, "x2"), q.bias = Arg(call, "biasOptional");
  q.eps = call.Double("epsilon"), q.divides = call.Int("divMode") != 0;
  const std::string mode = Text(call, "quantMode");
  q.dynamic = mode == "dynamic";
  if (!q.dynamic && mode != "static")
    return BadValue(call, "quantMode", "\"" + mode + "\"", "\"static\" or \"dynamic\"");
  OPSNN_RETURN_IF_ERROR(CheckLayerQuantOptions(call, q.dynamic));
  if (call.function().Find("layernormRes") >= 0) q.result = Arg(call, "layernormRes");
  const Operand gamma = Arg(call, "gamma"), beta = Arg(call, "beta"), sum = Arg(call, "xOut");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, q.x, q.dynamic ? 2 : 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&gamma, &beta, &q.bias, &sum}, q.x));
  OPSNN_ASSIGN_OR_RETURN(q.gamma, RowWeight(call, "gamma", q.x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, beta, gamma));
  OPSNN_ASSIGN_OR_RETURN(q.beta, RowWeight(call, "beta", q.x));
  q.rows = q.gamma.desc.dims.rank();
  if (q.dynamic) OPSNN_RETURN_IF_ERROR(RequireRank(call, gamma, 1, 1));
  if (q.bias.given() && !(q.bias.desc.dims == q.x.desc.dims)) {
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, q.bias, gamma));
    OPSNN_ASSIGN_OR_RETURN(q.bias, RowWeight(call, "biasOptional", q.x));
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, sum, q.x));
  if (call.Int("additionalOutput") != 0) q.sum = sum;
  OPSNN_RETURN_IF_ERROR(CheckSum(call, q));
  const struct {
    const char *scale, *zero, *y, *step;
  } kLanes[] = {{"scales1Optional", "zeroPoints1Optional", "y1Out", "outScales1Out"},
                {"scales2Optional", "zeroPoints2Optional", "y2Out", "outScales2Out"}};
  for (int i : {0, 1}) {
    Lane& lane = q.lanes[i];
    OPSNN_ASSIGN_OR_RETURN(lane.scale, RowScale(call, kLanes[i].scale, q.x, gamma));
    OPSNN_ASSIGN_OR_RETURN(lane.zero, RowScale(call, kLanes[i].zero, q.x, gamma));
    if (i == 1 && !lane.scale.given()) continue;
    if (q.dynamic) OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&lane.scale}, q.x));
    OPSNN_RETURN_IF_ERROR(CheckLaneTypes(call, lane, q.x));
    OPSNN_RETURN_IF_ERROR(CheckLaneOutputs(call, &q, kLanes[i].y, kLanes[i].step, i));
  }
  Take(q.Bind(), &out);
  return OkStatus();
}

Status Adapt_LayerNormQuant(const Call& call, OpCall& out) {
  QuantisedRows q;
  q.x = Arg(call, "x"), q.eps = call.Double("epsilon");
  if (call.Int("quantMode") != 0)
    return BadValue(call, "quantMode", std::to_string(call.Int("quantMode")), "0 (static)");
  const Operand gamma = Arg(call, "gammma"), beta = Arg(call, "beta");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, q.x, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&gamma, &beta}, q.x));
  OPSNN_ASSIGN_OR_RETURN(q.gamma, RowWeight(call, "gammma", q.x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, beta, gamma));
  OPSNN_ASSIGN_OR_RETURN(q.beta, RowWeight(call, "beta", q.x));
  q.rows = q.gamma.desc.dims.rank();
  Lane& lane = q.lanes[0];
  lane.scale = Arg(call, "scale"), lane.zero = Arg(call, "zeroPointsOptional");
  OPSNN_RETURN_IF_ERROR(RequireShape(call, lane.scale, {1}, "one value"));
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&lane.scale}, q.x));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, lane.zero, lane.scale));
  OPSNN_RETURN_IF_ERROR(CheckSum(call, q));
  OPSNN_RETURN_IF_ERROR(CheckLaneOutputs(call, &q, "res", nullptr, 0));
  Take(q.Bind(), &out);
  return OkStatus();
}

Status Adapt_AdaLayerNormQuant(const Call& call, OpCall& out) {
  QuantisedRows q;
  q.dynamic = true;
  q.x = Arg(call, "x"), q.eps = call.Double("epsilon");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, q.x, 2, kMaxRank));
  if (const std::string mode = Text(call, "quantMode"); mode != "dynamic")
    return BadValue(call, "quantMode", "\"" + mode + "\"", "\"dynamic\"");
  if (call.Given("quantOffsetOptional")) return BadValue(call, "quantOffsetOptional", "given", "null");
  OPSNN_ASSIGN_OR_RETURN(q.scale, PerSequence(call, "scale", q.x));
  OPSNN_ASSIGN_OR_RETURN(q.shift, PerSequence(call, "shift", q.x));
  q.gamma = Arg(call, "weightOptional"), q.beta = Arg(call, "biasOptional");
  q.lanes[0].scale = Arg(call, "smoothScalesOptional");
  for (const Operand* o : {&q.gamma, &q.beta, &q.lanes[0].scale})
    OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {q.x.desc.dims.back()}, "the last dim of x"));
  OPSNN_RETURN_IF_ERROR(RequireDTypes(call, {&q.scale, &q.shift, &q.gamma, &q.beta, &q.lanes[0].scale}, q.x));
  OPSNN_RETURN_IF_ERROR(CheckSum(call, q));
  Dims lead = q.x.desc.dims;
  lead.resize(lead.rank() - 1);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, Arg(call, "quantScale"), lead, "that of x without its last dim"));
  OPSNN_RETURN_IF_ERROR(CheckLaneOutputs(call, &q, "out", "quantScale", 0));
  Take(q.Bind(), &out);
  return OkStatus();
}

}  // namespace opsnn::capi
