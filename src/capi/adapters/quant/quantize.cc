// Tensors as 8-bit integers and back: by given scales and offsets, and by a step for each row. One program
// each. Values are rounded and saturate; NaN gives 0.
#include <algorithm>
#include <numeric>
#include <string>

#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

using ll = long long;

constexpr int kAclInt8 = 2;
constexpr double kMostInt8 = 127, kLeastInt8 = -128;

std::string Text(const Call& call, const char* param) {
  const auto* text = static_cast<const char*>(call.arguments()[call.Index(param)].raw.p);
  return text ? text : "";
}

// dstType of functions that also have forms of 4 and other kinds of 8 bits.
Status RequireInt8(const Call& call) {
  const int64_t type = call.Int("dstType");
  constexpr int64_t kPacked = 3, kInt4 = 29;
  if (type == kAclInt8) return OkStatus();
  if (type != kPacked && type != kInt4) return BadValue(call, "dstType", std::to_string(type), "2 (int8)");
  return Errorf(Code::kNotImplemented, "%s: dstType is %lld; supported: 2 (int8)", call.function().api,
                ll{type});
}

// A parameter of x along dim `axis`, one value or one for each: as a view that broadcasts with x. Of one dim,
// or of the dims of x with ones elsewhere.
Result<Operand> AlongAxis(const Call& call, const Operand& o, const Operand& x, int axis) {
  const Dims &d = o.desc.dims, &whole = x.desc.dims;
  const int64_t size = whole[axis];
  if (NumElements(d) == 1) return WithView(o, {1}, {0});
  const bool list = d.rank() == 1 && d[0] == size;
  bool full = d.rank() == whole.rank();
  for (int i = 0; full && i < d.rank(); ++i) full = d[i] == (i == axis ? size : 1);
  if (!list && !full) {
    return InvalidArgument("%s: %s has shape %s; allowed: one value, or [%lld] for dim %d of x",
                           call.function().api, NameOf(call, o).c_str(), ToString(d).c_str(), ll{size}, axis);
  }
  Dims dims = Dims::Filled(whole.rank(), 1), strides = Dims::Filled(whole.rank(), 0);
  dims[axis] = size, strides[axis] = StridesOf(o.desc)[list ? 0 : axis];
  return WithView(o, dims, strides);
}

Result<StageOp> RoundingOf(const Call& call) {
  static constexpr struct {
    const char* name;
    StageOp stage;
  } kModes[] = {{"round", StageOp::kRound},
                {"ceil", StageOp::kCeil},
                {"trunc", StageOp::kTrunc},
                {"floor", StageOp::kFloor}};
  const std::string mode = Text(call, "roundMode");
  for (const auto& m : kModes)
    if (mode == m.name) return m.stage;
  return BadValue(call, "roundMode", "\"" + mode + "\"", "round, ceil, trunc, floor");
}

// For each row of x the row of `table` [groups, columns] of its group: the first that ends behind it. Rows
// behind all ends take the last.
Result<Operand> RowsOfGroups(const Call& call, const Operand& table, const Operand& ends, const Operand& x,
                             OpCall* out) {
  const int64_t columns = x.desc.dims.back(), rows = NumElements(x.desc.dims) / std::max<int64_t>(1, columns);
  OPSNN_RETURN_IF_ERROR(RequireRank(call, ends, 1, 1));
  const int64_t groups = ends.desc.dims[0];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, table, {groups, columns}, "one row per group"));
  if (groups < 1) return BadValue(call, NameOf(call, ends).c_str(), "empty", "one group or more");
  OPSNN_RETURN_IF_ERROR(RequireRoom(call, rows, sizeof(int32_t)));
  OPSNN_ASSIGN_OR_RETURN(const auto row, NewConstant(call, DType::kS32, {rows, 1}));
  std::iota(row->as<int32_t>(), row->as<int32_t>() + rows, 0);
  ProgramBuilder b;
  SlotId at = b.Input(ComputeType::kS32);
  const SlotId end = b.Input(ComputeTypeOf(ends.desc.dtype));
  if (ends.desc.dtype == DType::kS64) at = b.Convert(at, ComputeType::kS64);
  const SlotId passed = b.Convert(b.Binary(StageOp::kLessEqual, end, at), ComputeType::kS32);
  b.Output(b.Binary(StageOp::kMin, b.Unary(StageOp::kRowSum, passed),
                    b.Const(static_cast<double>(groups - 1), ComputeType::kS32, true)));
  const Operand group = out->Temp(DType::kS32, {rows, 1}),
                picked = out->Temp(table.desc.dtype, {rows, columns});
  out->first.push_back(ProgramCall(std::move(b).Build(), {Constant(row), ends}, {group}, 1));
  out->first.push_back(Along("Gather", 0, {table, WithDType(Reshaped(group, {rows}), DType::kS64)}, picked));
  return Reshaped(picked, x.desc.dims);
}

}  // namespace

// y = round(x * scale + offset).
Status Adapt_AscendQuant(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), y = Arg(call, "y");
  Operand scale = Arg(call, "scale"), offset = Arg(call, "offset");
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
  OPSNN_ASSIGN_OR_RETURN(scale, AlongAxis(call, scale, x, axis));
  std::vector<Operand> inputs = {x, scale};
  if (offset.given()) {
    OPSNN_ASSIGN_OR_RETURN(offset, AlongAxis(call, offset, x, axis));
    inputs.push_back(offset);
  }
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
  Operand scale = Arg(call, "scale"), offset = Arg(call, "offset");
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_ASSIGN_OR_RETURN(const DType want, DTypeParam(call, "dstType"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, want, "dstType"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, scale, 1, 1));
  if (offset.given()) OPSNN_RETURN_IF_ERROR(RequireLike(call, offset, scale));
  const int axis = x.desc.dims.rank() - 1;
  OPSNN_ASSIGN_OR_RETURN(scale, AlongAxis(call, scale, x, axis));
  std::vector<Operand> inputs = {x, scale};
  if (offset.given()) {
    OPSNN_ASSIGN_OR_RETURN(offset, AlongAxis(call, offset, x, axis));
    inputs.push_back(offset);
  }
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
  Operand scale = Arg(call, "scales"), zero = Arg(call, "zeroPoints");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, x, 1, kMaxRank));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_ASSIGN_OR_RETURN(const DType want, DTypeParam(call, "dtype"));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, y, want, "dtype"));
  OPSNN_RETURN_IF_ERROR(RequireRank(call, scale, 1, 1));
  if (zero.given()) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, zero, scale));
  OPSNN_ASSIGN_OR_RETURN(const int axis, DimOf(call, "axis", call.Int("axis"), x.desc.dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(scale, AlongAxis(call, scale, x, axis));
  std::vector<Operand> inputs = {x, scale};
  if (zero.given()) {
    OPSNN_ASSIGN_OR_RETURN(zero, AlongAxis(call, zero, x, axis));
    inputs.push_back(zero);
  }
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
  Operand scale = Arg(call, "scale"), zero = Arg(call, "zeroPoint");
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
  OPSNN_ASSIGN_OR_RETURN(scale, AlongAxis(call, scale, self, axis));
  OPSNN_ASSIGN_OR_RETURN(zero, AlongAxis(call, zero, self, axis));
  const auto low = static_cast<double>(least), high = static_cast<double>(most);
  if (!enabled) {
    out.first.push_back(CallOf("Identity", {self}, {y}));
    Take(CallOf("Identity", {BroadcastView(ConstantFloat(1, DType::kBool), mask.desc.dims)}, {mask}), &out);
    return OkStatus();
  }
  Take(FormulaCall(
           {self, scale, zero}, {y, mask}, 0,
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
  OPSNN_ASSIGN_OR_RETURN(scale, RowsOfGroups(call, scale, Arg(call, "groupIndex"), x, &out));
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
  const std::string mode = call.function().Find("quantMode") < 0 ? "pertoken" : Text(call, "quantMode");
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
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  OPSNN_ASSIGN_OR_RETURN(const SharedStep shared, ReadMode(call, x, y));
  if (has("groupIndexOptional") && call.Given("groupIndexOptional")) {
    if (!smooth.given() || (has("quantMode") && Text(call, "quantMode") != "pertoken"))
      return BadValue(call, "groupIndexOptional", "given", "null without smoothScalesOptional and rows");
    OPSNN_RETURN_IF_ERROR(RequireDType(call, smooth, x.desc.dtype, "x"));
    OPSNN_ASSIGN_OR_RETURN(smooth, RowsOfGroups(call, smooth, Arg(call, "groupIndexOptional"), x, &out));
  } else if (smooth.given()) {
    OPSNN_RETURN_IF_ERROR(RequireDType(call, smooth, x.desc.dtype, "x"));
    OPSNN_RETURN_IF_ERROR(
        RequireShape(call, smooth, {shared.x.desc.dims.back()}, "one value for each element of a row"));
  }
  const bool shifted = has("offsetOut") && call.Given("offsetOut") &&
                       (!has("isSymmetrical") || call.Int("isSymmetrical") == 0);
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
