// Tensors as 8-bit integers and back: by given scales and offsets, and by a step for each row. One program
// each. Values are rounded and saturate; NaN gives 0.
#include <algorithm>
#include <string>

#include "capi/adapters/formula_call.h"
#include "capi/adapters/quant/quant_args.h"

namespace opsnn::capi {
namespace {

// x with its scale and, where given, its offset along dim `axis`: the inputs of a formula.
Result<std::vector<Operand>> WithScale(const Call& call, const Operand& x, const Operand& scale,
                                       const Operand& offset, int axis) {
  std::vector<Operand> inputs = {x};
  for (const Operand* o : {&scale, &offset}) {
    if (!o->given()) continue;
    OPSNN_ASSIGN_OR_RETURN(Operand along, AlongAxis(call, *o, x, axis));
    inputs.push_back(std::move(along));
  }
  return inputs;
}

Result<StageOp> RoundingOf(const Call& call) {
  static constexpr struct {
    const char* name;
    StageOp stage;
  } kModes[] = {{"round", StageOp::kRound},
                {"ceil", StageOp::kCeil},
                {"trunc", StageOp::kTrunc},
                {"floor", StageOp::kFloor}};
  const std::string mode = TextOf(call, "roundMode");
  for (const auto& m : kModes)
    if (mode == m.name) return m.stage;
  return BadValue(call, "roundMode", "\"" + mode + "\"", "round, ceil, trunc, floor");
}

}  // namespace

// y = round(x * scale + offset).
Status Adapt_AscendQuant(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "y");
  const Operand scale = Arg(call, "scale"), offset = Arg(call, "offset");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireInt8(call));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  if (x.desc.dtype != DType::kF32) OPSNN_RETURN_IF_ERROR(RequireDType(call, scale, x.desc.dtype, "x"));
  if (offset.given()) OPSNN_RETURN_IF_ERROR(RequireLike(call, offset, scale));
  const int rank = x.desc.dims.rank();
  int axis = rank - 1;
  if (call.function().Find("axis") >= 0) {
    OPSNN_ASSIGN_OR_RETURN(axis, DimOf(call, "axis", call.Int("axis"), rank));
    if (axis < rank - 2)
      return BadValue(call, "axis", std::to_string(call.Int("axis")), "one of the last two dims of x");
  }
  OPSNN_ASSIGN_OR_RETURN(const StageOp rounding, RoundingOf(call));
  OPSNN_ASSIGN_OR_RETURN(std::vector<Operand> inputs, WithScale(call, x, scale, offset, axis));
  const bool square = call.Int("sqrtMode") != 0;
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     Term z = f.In(0) * f.In(1);
                     if (square) z = z * f.In(1);
                     if (offset.given()) z = z + f.In(2);
                     return std::vector<Term>{f.Unary(rounding, z)};
                   }),
       &out);
  return OkStatus();
}

// y = (x + offset) * scale.
Status Adapt_AscendAntiQuant(const Call& call, OpCall& out) {
  const Operand x = AtLeast1d(Arg(call, "x")), y = AtLeast1d(Arg(call, "y"));
  const Operand scale = Arg(call, "scale"), offset = Arg(call, "offset");
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_ASSIGN_OR_RETURN(const DType want, DTypeParam(call, "dstType"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, want, "dstType"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, scale, 1, 1));
  if (offset.given()) OPSNN_RETURN_IF_ERROR(RequireLike(call, offset, scale));
  const int axis = x.desc.dims.rank() - 1;
  OPSNN_ASSIGN_OR_RETURN(std::vector<Operand> inputs, WithScale(call, x, scale, offset, axis));
  const bool square = call.Int("sqrtMode") != 0;
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     Term z = f.In(0);
                     if (offset.given()) z = z + f.In(2);
                     z = z * f.In(1);
                     return std::vector<Term>{square ? z * f.In(1) : z};
                   }),
       &out);
  return OkStatus();
}

// out = round(x / scales + zeroPoints).
Status Adapt_Quantize(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "out");
  const Operand scale = Arg(call, "scales"), zero = Arg(call, "zeroPoints");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_ASSIGN_OR_RETURN(const DType want, DTypeParam(call, "dtype"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, want, "dtype"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, scale, 1, 1));
  if (zero.given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, zero, scale));
  OPSNN_ASSIGN_OR_RETURN(const int axis, DimOf(call, "axis", call.Int("axis"), x.desc.dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(std::vector<Operand> inputs, WithScale(call, x, scale, zero, axis));
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     const Term z = f.In(0) / f.In(1);
                     return std::vector<Term>{Round(zero.given() ? z + f.In(2) : z)};
                   }),
       &out);
  return OkStatus();
}

// What the range of 8 bits leaves of self, in its own type, and where it left it alone.
Status Adapt_FakeQuant(const Call& call, OpCall& out) {
  const Operand self = AtLeast1d(Arg(call, "self")), y = AtLeast1d(Arg(call, "out"));
  const Operand mask = AtLeast1d(Arg(call, "mask"));
  const Operand scale = Arg(call, "scale"), zero = Arg(call, "zeroPoint");
  for (const Operand* o : {&y, &mask}) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, *o, self));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, self.desc.dtype, "self"));
  const int64_t least = call.Int("quantMin"), most = call.Int("quantMax");
  if (least > most)
    return BadValue(call, "quantMin", std::to_string(least), "at most quantMax, " + std::to_string(most));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, scale, 1, 1));
  bool enabled = true;
  int axis = 0;
  if (call.function().Find("axis") >= 0) {
    OPSNN_ASSIGN_OR_RETURN(axis, DimOf(call, "axis", call.Int("axis"), self.desc.dims.rank()));
    for (const Operand* o : {&scale, &zero})
      OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {self.desc.dims[axis]}, "one per element along axis"));
  } else {
    enabled = call.Double("fakeQuantEnabled") >= 1;
    for (const Operand* o : {&scale, &zero}) OPSNN_RETURN_IF_ERROR(RequireShape(call, *o, {1}, "one value"));
  }
  OPSNN_ASSIGN_OR_RETURN(std::vector<Operand> inputs, WithScale(call, self, scale, zero, axis));
  const auto low = static_cast<double>(least), high = static_cast<double>(most);
  if (!enabled) {
    out.first.push_back(CallOf("Identity", {self}, {y}));
    Take(CallOf("Identity", {BroadcastView(ConstantFloat(1, DType::kBool), mask.desc.dims)}, {mask}), &out);
    return OkStatus();
  }
  Take(FormulaCall(
           std::move(inputs), {y, mask}, 0,
           [&](ProgramBuilder&, Formula& f) {
             const Term q = Round(f.In(0) / f.In(1)) + f.In(2);
             return std::vector<Term>{(Clip(q, low, high) - f.In(2)) * f.In(1), And(q >= low, q <= high)};
           }),
       &out);
  return OkStatus();
}

// y = round(x * scale + offset), each row by the scales of its group.
Status Adapt_GroupQuant(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "y"), offset = Arg(call, "offsetOptional");
  Operand scale = Arg(call, "scale");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireInt8(call));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  std::vector<Operand> inputs = {x};
  if (offset.given()) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, offset, scale.desc.dtype, "scale"));
    if (offset.desc.dims.rank() != 0) OPSNN_RETURN_IF_ERROR(RequireShape(call, offset, {1}, "one value"));
  }
  OPSNN_RETURN_IF_ERROR(RequireRank(call, scale, 2, 2));
  OPSNN_ASSIGN_OR_RETURN(scale,
                         RowsOfGroups(call, scale, Arg(call, "groupIndex"), x, x.desc.dims.back(), &out));
  inputs.push_back(scale);
  if (offset.given()) inputs.push_back(WithView(offset, {1}, {0}));
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     const Term z = f.In(0) * f.In(1);
                     return std::vector<Term>{Round(offset.given() ? z + f.In(2) : z)};
                   }),
       &out);
  return OkStatus();
}

namespace {

// The dims that share a step: those of a row (or column, as rows of the exchanged matrices) or all.
struct SharedStep {
  Operand x, y;
  int row_rank = 1;
  Dims steps;  // of scaleOut and offsetOut
};

Result<SharedStep> ReadMode(const Call& call, Operand x, Operand y) {
  const std::string mode = call.function().Find("quantMode") < 0 ? "pertoken" : TextOf(call, "quantMode");
  const int rank = x.desc.dims.rank();
  if (mode == "perchannel") {
    std::vector<int> order;
    for (int i = 0; i < rank; ++i) order.push_back(i);
    std::swap(order[static_cast<size_t>(rank) - 1], order[static_cast<size_t>(rank) - 2]);
    x = Permuted(x, order), y = Permuted(y, order);
  } else if (mode != "pertoken" && mode != "pertensor") {
    return BadValue(call, "quantMode", "\"" + mode + "\"", "pertoken, pertensor, perchannel");
  }
  SharedStep s = {x, y, mode == "pertensor" ? rank : 1, {1}};
  if (mode == "pertensor") return s;
  s.steps = x.desc.dims;
  s.steps.resize(rank - 1);
  return s;
}

}  // namespace

// Each row, column or tensor by a step of its own: symmetric, or with the lowest and highest value at the
// ends of the range.
Status Adapt_DynamicQuant(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "yOut");
  Operand smooth = Arg(call, "smoothScalesOptional");
  const auto has = [&](const char* param) { return call.function().Find(param) >= 0; };
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 2, kMaxRank));
  if (has("dstType")) OPSNN_RETURN_IF_ERROR(RequireInt8(call));
  if (has("dstTypeMax")) {  // it matters to 8-bit floats alone
    const double most = call.Double("dstTypeMax");
    if (!(most >= 0 && most <= 32768))
      return BadValue(call, "dstTypeMax", StrFormat("%g", most), "0 to 32768");
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_ASSIGN_OR_RETURN(const SharedStep shared, ReadMode(call, x, y));
  if (has("groupIndexOptional") && call.Given("groupIndexOptional")) {
    if (!smooth.given() || (has("quantMode") && TextOf(call, "quantMode") != "pertoken"))
      return BadValue(call, "groupIndexOptional", "given", "null without smoothScalesOptional and rows");
    OPSNN_RETURN_IF_ERROR(RequireDType(call, smooth, x.desc.dtype, "x"));
    OPSNN_RETURN_IF_ERROR(RequireRank(call, smooth, 2, 2));
    OPSNN_ASSIGN_OR_RETURN(
        smooth, RowsOfGroups(call, smooth, Arg(call, "groupIndexOptional"), x, x.desc.dims.back(), &out));
  } else if (smooth.given()) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, smooth, x.desc.dtype, "x"));
    OPSNN_RETURN_IF_ERROR(
        RequireShape(call, smooth, {shared.x.desc.dims.back()}, "one value for each element of a row"));
  }
  const bool shifted = has("offsetOut") && call.Given("offsetOut");
  if (has("isSymmetrical") && shifted == (call.Int("isSymmetrical") != 0)) {
    return BadValue(call, "offsetOut", shifted ? "given" : "null",
                    shifted ? "null, as isSymmetrical is true" : "a tensor, as isSymmetrical is false");
  }
  std::vector<Operand> inputs = {shared.x}, outputs = {shared.y};
  if (smooth.given()) inputs.push_back(smooth);
  for (const char* param : {"scaleOut", "offsetOut"}) {
    if (std::string_view(param) == "offsetOut" && !shifted) break;
    const Operand o = Arg(call, param);
    OPSNN_RETURN_IF_ERROR(RequireShape(call, o, shared.steps, "one value for each step"));
    Dims dims = o.desc.dims, strides = StridesOf(o.desc);
    while (dims.rank() < x.desc.dims.rank()) dims.push_back(1), strides.push_back(0);
    outputs.push_back(WithView(o, dims, strides));
  }
  Take(FormulaCall(std::move(inputs), std::move(outputs), shared.row_rank,
                   [&](ProgramBuilder& b, Formula& f) {
                     const auto constant = [&](double v) { return Term{&f, b.Const(v, f.type(), true)}; };
                     const Term z = smooth.given() ? f.In(0) * f.In(1) : f.In(0);
                     if (!shifted) {
                       const Term step = f.Unary(StageOp::kRowMax, Abs(z)) / constant(kMostInt8);
                       return std::vector<Term>{Round(z / step), step};
                     }
                     const Term high = f.Unary(StageOp::kRowMax, z), low = f.Unary(StageOp::kRowMin, z);
                     const Term step = (high - low) / constant(kMostInt8 - kLeastInt8);
                     const Term offset = constant(kMostInt8) - high / step;
                     return std::vector<Term>{Round(z / step + offset), step, offset};
                   }),
       &out);
  return OkStatus();
}

}  // namespace opsnn::capi
