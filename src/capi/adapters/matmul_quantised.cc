// Products of float matrices whose result is stored as s8.
#include <string>

#include "capi/adapters/formula_call.h"
#include "capi/adapters/tiles.h"

namespace opsnn::capi {
namespace {

Status RequireElements(const Call& call, std::initializer_list<const Operand*> operands) {
  for (const Operand* o : operands) {
    if (NumElements(o->desc.dims) > 0) continue;
    return InvalidArgument("%s: %s is empty; allowed: one element or more", call.function().api,
                           NameOf(call, *o).c_str());
  }
  return OkStatus();
}

}  // namespace

// (x1 x2 + bias) * scale + offset; scale and offset come as 64 bits each.
Status Adapt_BatchMatmulQuant(const Call& call, OpCall& out) {
  Operand x1 = Arg(call, "x1"), x2 = Arg(call, "x2");
  const Operand bits = Arg(call, "quantParam"), bias = Arg(call, "bias"), y = Arg(call, "out");
  for (const Operand* o : {&x1, &x2}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireElements(call, {&x1, &x2}));
  if (call.Int("transposeX1") != 0) x1 = Permuted(x1, {1, 0});
  if (call.Int("transposeX2") != 0) x2 = Permuted(x2, {1, 0});
  const int64_t m = x1.desc.dims[0], n = x2.desc.dims[1];
  if (x1.desc.dims[1] != x2.desc.dims[0]) {
    return InvalidArgument(
        "%s: x2 has shape %s with x1 of shape %s, after transposition; allowed: the same k",
        call.function().api, ToString(x2.desc.dims).c_str(), ToString(x1.desc.dims).c_str());
  }
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, {m, n}, "the shape of the product"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, bias, {n}, "one value per column"));
  if (!(bits.desc.dims == Dims{1})) {
    OPSNN_RETURN_IF_ERROR(RequireShape(call, bits, {(n + kTileRows - 1) / kTileRows * kTileRows},
                                       "one value, or as many as columns, rounded up to 16"));
  }
  const int64_t count = bits.desc.dims[0];
  const Operand scale = out.Temp(DType::kF32, {count}), offset = out.Temp(DType::kF32, {count});
  out.first.push_back(CallOf("QuantParamValues", {bits}, {scale, offset}));
  auto columns = [&](const Operand& o) { return count == 1 ? o : WithView(o, {n}, {1}); };
  const Operand product = out.Temp(DType::kF32, {m, n});
  out.first.push_back(FloatProduct(x1, x2, product));
  std::vector<Operand> inputs = {product, columns(scale), columns(offset)};
  if (bias.given()) inputs.push_back(bias);
  Take(FormulaCall(std::move(inputs), {y}, 0,
                   [&](ProgramBuilder&, Formula& f) {
                     const Term sum = bias.given() ? f.In(0) + f.In(3) : f.In(0);
                     return std::vector<Term>{Round(sum * f.In(1) + f.In(2))};
                   }),
       &out);
  return OkStatus();
}

namespace {

enum class Rounding { kEven, kAway, kFloor };

Result<Rounding> RoundModeOf(const Call& call) {
  const auto* text = static_cast<const char*>(call.arguments()[call.Index("roundMode")].raw.p);
  const std::string mode = text ? text : "rint";
  if (mode == "rint") return Rounding::kEven;
  if (mode == "round") return Rounding::kAway;
  if (mode == "floor") return Rounding::kFloor;
  return BadValue(call, "roundMode", "\"" + mode + "\"", "\"rint\", \"round\", \"floor\"");
}

Term Rounded(Term x, Rounding mode) {
  if (mode == Rounding::kEven) return Round(x);
  if (mode == Rounding::kFloor) return Floor(x);
  return Select(x < 0.0, -Floor(0.5 - x), Floor(x + 0.5));
}

}  // namespace

// Each part of k columns of x times the rotation; rows are then scaled so that their largest becomes 127.
Status Adapt_RotateQuant(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), rotation = Arg(call, "rotation"), y = Arg(call, "yOut"),
                step = Arg(call, "scaleOut");
  for (const Operand* o : {&x, &rotation}) OPSNN_RETURN_IF_ERROR(RequireRank(call, *o, 2, 2));
  OPSNN_RETURN_IF_ERROR(RequireElements(call, {&x, &rotation}));
  OPSNN_RETURN_IF_ERROR(RequireDType(call, rotation, x.desc.dtype, "x"));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, x));
  const int64_t m = x.desc.dims[0], n = x.desc.dims[1], k = rotation.desc.dims[0];
  OPSNN_RETURN_IF_ERROR(RequireShape(call, rotation, {k, k}, "a square"));
  OPSNN_RETURN_IF_ERROR(RequireShape(call, step, {m}, "one value per row"));
  if (n % k != 0) {
    return BadValue(
        call, "rotation", "of shape " + ToString(rotation.desc.dims),
        StrFormat("squares whose size divides %lld, the columns of x", static_cast<long long>(n)));
  }
  if (call.Given("alpha")) return BadValue(call, "alpha", "given", "null");
  const int64_t axis = call.Int("axis");
  if (axis != -1 && axis != 1) return BadValue(call, "axis", std::to_string(axis), "-1, 1");
  if (call.Int("scaleAlg") != 0) return BadValue(call, "scaleAlg", std::to_string(call.Int("scaleAlg")), "0");
  if (call.Double("dstTypeMax") != 0)
    return BadValue(call, "dstTypeMax", StrFormat("%g", call.Double("dstTypeMax")), "0");
  if (call.Int("trans") != 0) return BadValue(call, "trans", "true", "false");
  OPSNN_ASSIGN_OR_RETURN(const Rounding mode, RoundModeOf(call));
  const Operand rotated = out.Temp(DType::kF32, {m, n});
  const Operand parts = Reshaped(Contiguously(x, &out), {m * (n / k), k});
  out.first.push_back(FloatProduct(parts, rotation, Reshaped(rotated, {m * (n / k), k})));
  Take(FormulaCall({rotated}, {y, WithView(step, {m, 1}, {StridesOf(step.desc)[0], 0})}, 1,
                   [&](ProgramBuilder& b, Formula& f) {
                     constexpr double kMostInt8 = 127;
                     const Term most{&f, b.Const(kMostInt8, f.type(), true)};
                     const Term unit = f.Unary(StageOp::kRowMax, Abs(f.In(0))) / most;
                     return std::vector<Term>{Rounded(f.In(0) / unit, mode), unit};
                   }),
       &out);
  return OkStatus();
}

}  // namespace opsnn::capi
