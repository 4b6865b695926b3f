// Gated units: the halves of a tensor along a dim are the two operands of GatedUnit, and the halves of its
// gradient the results of two calls of GatedUnitGrad.
#include "capi/adapters/gated.h"

#include <numeric>

namespace opsnn::capi {

Result<Halves> Cut(const Call& call, const Operand& x, int dim, bool interleaved) {
  const int64_t size = x.desc.dims[dim], half = size / 2;
  if (size % 2 != 0) {
    return InvalidArgument("%s: %s has shape %s; allowed: an even size of dim %d, which is cut in two",
                           call.function().api, NameOf(call, x).c_str(), ToString(x.desc.dims).c_str(), dim);
  }
  Dims dims = x.desc.dims, strides = StridesOf(x.desc);
  dims[dim] = half;
  const int64_t step = strides[dim];
  if (interleaved) strides[dim] = 2 * step;
  Halves h{WithView(x, dims, strides), WithView(x, dims, strides)};
  h.right.offset += interleaved ? step : half * step;
  return h;
}

namespace {

// One row per position in front of `dim`; pairs of the rest are neighbours in memory.
Result<Operand> AsRows(const Call& call, const Operand& o, int dim) {
  if (!o.desc.IsContiguous()) {
    return InvalidArgument(
        "%s: %s is a strided view; allowed: contiguous ones where interleaved pairs span dims",
        call.function().api, NameOf(call, o).c_str());
  }
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < o.desc.dims.rank(); ++i) (i < dim ? rows : columns) *= o.desc.dims[i];
  return Reshaped(o, Dims{rows, columns});
}

Result<int> CutDim(const Call& call, const Operand& x, const char* param) {
  if (x.desc.dims.rank() == 0) {
    return InvalidArgument("%s: %s has 0 dims; allowed: 1 to 8", call.function().api,
                           NameOf(call, x).c_str());
  }
  if (!param) return x.desc.dims.rank() - 1;
  return DimOf(call, param, call.Int(param), x.desc.dims.rank());
}

Status RequireHalf(const Call& call, const Operand& y, const Operand& x, int dim) {
  Dims want = x.desc.dims;
  want[dim] /= 2;
  return RequireShape(call, y, want, "that of the input with the cut dim halved");
}

Status RequireInputDType(const Call& call, const Operand& o, const Operand& x) {
  return RequireDType(call, o, x.desc.dtype, NameOf(call, x).c_str());
}

// Which rows count: those before the sum of the group sizes, which is known only when the call runs.
Result<Operand> RowMask(const Call& call, OpCall& out, int64_t rows) {
  if (call.function().Find("groupIndexOptional") < 0) return Operand{};
  const Operand groups = Arg(call, "groupIndexOptional");
  if (!groups.given()) return groups;
  OpCall sum, less;
  sum.op = op::FindOperator("ReduceSum");
  sum.attrs.Set("keepdims", int64_t{1});
  const Operand total = out.Temp(DType::kS64, {1});
  sum.inputs = {groups};
  sum.outputs = {total};
  less.op = op::FindOperator("Less");
  OPSNN_ASSIGN_OR_RETURN(const auto index, NewConstant(call, DType::kS64, {rows}));
  std::iota(index->as<int64_t>(), index->as<int64_t>() + rows, int64_t{0});
  const Operand mask = out.Temp(DType::kBool, {rows});
  less.inputs = {Constant(index), total};
  less.outputs = {mask};
  out.first.push_back(std::move(sum));
  out.first.push_back(std::move(less));
  return mask;
}

// A vector of one value per position in front of `dim`, as an operand of the halves.
Operand PerRow(const Operand& v, const Dims& dims, int dim) {
  if (!v.given()) return {};
  Dims shape = dims;
  for (int i = dim; i < shape.rank(); ++i) shape[i] = 1;
  return Reshaped(v, shape);
}

int64_t RowsBefore(const Dims& dims, int dim) {
  int64_t rows = 1;
  for (int i = 0; i < dim; ++i) rows *= dims[i];
  return rows;
}

// Weights and their gradients: dense, one value per row of x.
Status RequirePerRow(const Call& call, const Operand& o, const Operand& x, int dim) {
  if (!o.given() || (NumElements(o.desc.dims) == RowsBefore(x.desc.dims, dim) && o.desc.IsContiguous()))
    return OkStatus();
  return BadValue(call, NameOf(call, o).c_str(),
                  (o.desc.IsContiguous() ? "of shape " : "a strided view of shape ") + ToString(o.desc.dims),
                  "dense, one element per row of x, whose shape is " + ToString(x.desc.dims));
}

// The whole of a forward function: y = unit(activated half, other half).
Status Forward(const Call& call, OpCall& out, Operand x, Operand y, int dim, bool left, bool interleaved,
               Operand weight = {}) {
  OPSNN_RETURN_IF_ERROR(RequireHalf(call, y, x, dim));
  OPSNN_ASSIGN_OR_RETURN(const Operand mask, RowMask(call, out, RowsBefore(x.desc.dims, dim)));
  const bool flat = interleaved && dim != x.desc.dims.rank() - 1;
  if (flat) {
    OPSNN_ASSIGN_OR_RETURN(x, AsRows(call, x, dim));
    OPSNN_ASSIGN_OR_RETURN(y, AsRows(call, y, dim));
    dim = 1;
  }
  OPSNN_ASSIGN_OR_RETURN(Halves h, Cut(call, x, dim, interleaved));
  out.op = op::FindOperator("GatedUnit");
  out.inputs = {left ? h.left : h.right, left ? h.right : h.left, PerRow(weight, h.left.desc.dims, dim),
                PerRow(mask, h.left.desc.dims, dim)};
  out.outputs = {y};
  return OkStatus();
}

// The same for a gradient; `value_gate` stands for act(a) in the gradient of the other half where it is
// given.
Status Backward(const Call& call, OpCall& out, Operand dy, Operand x, Operand dx, int dim, bool left,
                bool interleaved, const Operand& activated = {}, const Operand& weight = {}) {
  OPSNN_RETURN_IF_ERROR(RequireHalf(call, dy, x, dim));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, dx, x));
  OPSNN_RETURN_IF_ERROR(RequireInputDType(call, dy, x));
  OPSNN_RETURN_IF_ERROR(RequireInputDType(call, dx, x));
  OPSNN_ASSIGN_OR_RETURN(const Operand mask, RowMask(call, out, RowsBefore(x.desc.dims, dim)));
  if (interleaved && dim != x.desc.dims.rank() - 1) {
    OPSNN_ASSIGN_OR_RETURN(x, AsRows(call, x, dim));
    OPSNN_ASSIGN_OR_RETURN(dy, AsRows(call, dy, dim));
    OPSNN_ASSIGN_OR_RETURN(dx, AsRows(call, dx, dim));
    dim = 1;
  }
  OPSNN_ASSIGN_OR_RETURN(Halves h, Cut(call, x, dim, interleaved));
  OPSNN_ASSIGN_OR_RETURN(Halves g, Cut(call, dx, dim, interleaved));
  if (!left) std::swap(h.left, h.right), std::swap(g.left, g.right);
  const Operand rows = PerRow(mask, h.left.desc.dims, dim), factor = PerRow(weight, h.left.desc.dims, dim);
  OpCall other;  // the gradient of the half that is not activated
  other.op = op::FindOperator(activated.given() ? "Mul" : "GatedUnitGrad");
  if (activated.given()) {
    other.inputs = {dy, activated};
  } else {
    other.attrs = out.attrs;
    other.attrs.Set("wrt", int64_t{1});
    other.inputs = {dy, h.left, h.right, factor, rows};
  }
  other.outputs = {g.right};
  // Weights may be of a wider type than the gradient.
  other.converts_output = out.converts_output = weight.given();
  out.first.push_back(std::move(other));
  out.op = op::FindOperator("GatedUnitGrad");
  out.inputs = {dy, h.left, h.right, factor, rows};
  out.outputs = {g.left};
  return OkStatus();
}

Status SetApproximate(const Call& call, OpCall& out) {
  const int64_t approximate = call.Int("approximate");
  if (approximate != 0 && approximate != 1)
    return BadValue(call, "approximate", std::to_string(approximate), "0 (erf), 1 (tanh)");
  out.attrs.Set("activation", std::string(approximate ? "gelu_tanh" : "gelu"));
  return OkStatus();
}

Status SetClipping(const Call& call, OpCall& out) {
  const double limit = call.Double("limit");
  if (!(limit > 0)) return BadValue(call, "limit", StrFormat("%g", limit), "above 0");
  out.attrs.Set("limit", limit);
  const bool after = call.function().Find("clampMode") >= 0 && call.Int("clampMode") != 0;
  if (after && call.Int("clampMode") != 1)
    return BadValue(call, "clampMode", std::to_string(call.Int("clampMode")), "0, 1");
  out.attrs.Set("limit_after", int64_t{after});
  out.attrs.Set("alpha", after ? 1.0 : call.Double("alpha"));
  out.attrs.Set("bias", after ? 0.0 : call.Double("bias"));
  return OkStatus();
}

Status SetSitu(const Call& call, OpCall& out) {
  const double beta = call.Double("beta");
  if (!(beta > 0)) return BadValue(call, "beta", StrFormat("%g", beta), "above 0");
  out.attrs.Set("activation", std::string("situ"));
  out.attrs.Set("alpha", beta);
  if (call.Double("linearBeta") > 0) out.attrs.Set("up_beta", call.Double("linearBeta"));
  return OkStatus();
}

}  // namespace

Status Adapt_Glu(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  out.attrs.Set("activation", std::string("sigmoid"));
  out.converts_output = true;
  return Forward(call, out, x, y, dim, false, false);
}

Status Adapt_SwiGlu(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  return Forward(call, out, x, Arg(call, "out"), dim, true, false);
}

Status Adapt_GeluMul(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "input");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, nullptr));
  const char* text = static_cast<const char*>(call.arguments()[call.Index("approximateOptional")].raw.p);
  const std::string approximate = text ? text : "none";
  if (approximate != "none" && approximate != "tanh")
    return BadValue(call, "approximateOptional", "\"" + approximate + "\"", "\"none\", \"tanh\"");
  out.attrs.Set("activation", std::string(approximate == "tanh" ? "gelu_tanh" : "gelu"));
  return Forward(call, out, x, Arg(call, "out"), dim, true, false);
}

Status Adapt_GeGlu(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), y = Arg(call, "out"), gelu = Arg(call, "outGelu");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  OPSNN_RETURN_IF_ERROR(SetApproximate(call, out));
  OPSNN_RETURN_IF_ERROR(RequireHalf(call, gelu, x, dim));
  OPSNN_RETURN_IF_ERROR(RequireInputDType(call, gelu, x));
  const bool left = call.function().Find("activateLeft") >= 0 && call.Int("activateLeft") != 0;
  OPSNN_RETURN_IF_ERROR(Forward(call, out, x, y, dim, left, false));
  OpCall activated;
  activated.op = op::FindOperator("Gelu");
  activated.attrs.Set("approximate", std::string(call.Int("approximate") ? "tanh" : "none"));
  activated.inputs = {out.inputs[0]};
  activated.outputs = {gelu};
  out.first.push_back(std::move(activated));
  return OkStatus();
}

Status Adapt_ClippedSwiglu(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  OPSNN_RETURN_IF_ERROR(SetClipping(call, out));
  return Forward(call, out, x, Arg(call, "out"), dim, true, call.Int("interleaved") != 0);
}

Status Adapt_SituGlu(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  OPSNN_RETURN_IF_ERROR(SetSitu(call, out));
  return Forward(call, out, x, Arg(call, "out"), dim, call.Int("activateLeft") != 0, false);
}

Status Adapt_SwigluGroup(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), weight = Arg(call, "weightOptional");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, nullptr));
  const double limit = call.Double("clampLimit");
  if (limit > 0) out.attrs.Set("limit", limit);
  if (!(limit > 0) && limit != -1)
    return BadValue(call, "clampLimit", StrFormat("%g", limit), "-1, or above 0");
  OPSNN_RETURN_IF_ERROR(RequirePerRow(call, weight, x, dim));
  OPSNN_RETURN_IF_ERROR(RequireInputDType(call, Arg(call, "out"), x));
  out.converts_output = true;  // weights are f32
  return Forward(call, out, x, Arg(call, "out"), dim, true, false, weight);
}

Status Adapt_GluGrad(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  out.attrs.Set("activation", std::string("sigmoid"));
  return Backward(call, out, Arg(call, "gradOut"), x, Arg(call, "out"), dim, false, false);
}

Status Adapt_SwiGluGrad(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  return Backward(call, out, Arg(call, "yGrad"), x, Arg(call, "out"), dim, true, false);
}

Status Adapt_ClippedSwigluGrad(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  OPSNN_RETURN_IF_ERROR(SetClipping(call, out));
  return Backward(call, out, Arg(call, "gradY"), x, Arg(call, "gradXOut"), dim, true,
                  call.Int("interleaved") != 0);
}

Status Adapt_SituGluGrad(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  OPSNN_RETURN_IF_ERROR(SetSitu(call, out));
  return Backward(call, out, Arg(call, "gradY"), x, Arg(call, "out"), dim, call.Int("activateLeft") != 0,
                  false);
}

Status Adapt_GeGluGrad(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "self"), gelu = Arg(call, "gelu");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, "dim"));
  OPSNN_RETURN_IF_ERROR(SetApproximate(call, out));
  OPSNN_RETURN_IF_ERROR(RequireHalf(call, gelu, x, dim));
  OPSNN_RETURN_IF_ERROR(RequireInputDType(call, gelu, x));
  const bool left = call.function().Find("activateLeft") >= 0 && call.Int("activateLeft") != 0;
  return Backward(call, out, Arg(call, "gradOutput"), x, Arg(call, "gradInput"), dim, left, false, gelu);
}

Status Adapt_SwigluGroupGrad(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "x"), dy = Arg(call, "gradY"), weight = Arg(call, "weightOptional");
  const Operand origin = Arg(call, "yOriginOptional");
  Operand dw = Arg(call, "gradWeightOutOptional");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, nullptr));
  // The gradient of aclnnSwigluGroup has its own word for no limit, and weights get gradients in all rows.
  const bool plain = std::string_view(call.function().api) == "aclnnSwigluGroupGrad";
  const double limit = call.Double("clampLimit");
  if (!(limit > 0) && limit != (plain ? 0 : -1))
    return BadValue(call, "clampLimit", StrFormat("%g", limit), plain ? "0 or more" : "-1, or above 0");
  if (limit > 0) {
    out.attrs.Set("limit", limit);
    out.attrs.Set("limit_open", int64_t{1});
  }
  OPSNN_RETURN_IF_ERROR(RequirePerRow(call, weight, x, dim));
  OPSNN_RETURN_IF_ERROR(RequirePerRow(call, dw, x, dim));
  OPSNN_RETURN_IF_ERROR(Backward(call, out, dy, x, Arg(call, "gradXOut"), dim, true, false, {}, weight));
  if (!dw.given()) return OkStatus();
  if (!origin.given() || !weight.given()) {
    return Errorf(Code::kNull, "%s: %s is null; it is required for gradWeightOutOptional",
                  call.function().api, origin.given() ? "weightOptional" : "yOriginOptional");
  }
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, origin, dy));
  ProgramBuilder b;
  const bool masked = !plain && out.inputs.back().given();
  const SlotId g = b.Input(), y = b.Input(), row_mask = masked ? b.Input(ComputeType::kS32) : kNoSlot;
  SlotId product = b.Binary(StageOp::kMul, g, y);
  if (row_mask != kNoSlot) {
    product = b.Ternary(StageOp::kSelect, b.Convert(row_mask, ComputeType::kF32), product, b.Const(0));
  }
  b.Output(b.Unary(StageOp::kRowSum, product));
  std::vector<Operand> inputs = {dy, origin};
  if (row_mask != kNoSlot) inputs.push_back(out.inputs.back());
  out.first.push_back(
      ProgramCall(std::move(b).Build(), std::move(inputs), {PerRow(dw, x.desc.dims, dim)}, 1));
  return OkStatus();
}

Status Adapt_FatReluMul(const Call& call, OpCall& out) {
  const Operand x = Arg(call, "input"), threshold = Arg(call, "threshold"), y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const int dim, CutDim(call, x, nullptr));
  OPSNN_RETURN_IF_ERROR(RequireInputDType(call, threshold, x));
  if (NumElements(threshold.desc.dims) != 1)
    return BadValue(call, "threshold", "of shape " + ToString(threshold.desc.dims), "one element");
  OPSNN_RETURN_IF_ERROR(RequireHalf(call, y, x, dim));
  OPSNN_ASSIGN_OR_RETURN(Halves h, Cut(call, x, dim, false));
  out.op = op::FindOperator("FatReluMul");
  out.inputs = {h.left, h.right, Reshaped(threshold, Dims{1})};
  out.outputs = {y};
  return OkStatus();
}

}  // namespace opsnn::capi
