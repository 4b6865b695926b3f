// Reductions and what goes along one dim: Mean, ReduceSum, Norm, ArgMax, Cumsum, Argsort, Arange.
#include <cmath>
#include <limits>

#include "capi/adapters/common.h"
#include "op/pointwise.h"

namespace opsnn::capi {
namespace {

// The dims of an int array as the operators want them; an empty array means all.
void SetAxes(const std::vector<int64_t>& dims, bool keep, OpCall* c) {
  if (!dims.empty()) {
    if (c->inputs.size() == 1) c->inputs.emplace_back();
    c->inputs[1] = ConstantInts(dims);
  }
  c->attrs.Set("keepdims", int64_t{keep});
}

bool IsNarrow(DType t) { return t == DType::kS8 || t == DType::kU8 || t == DType::kS16 || t == DType::kBool; }

// The type to read `self` in so that the sum is one of `want`: its own where that computes as precisely.
DType SummedAs(DType self, DType want) {
  if (IsFloat(self) && IsFloat(want)) {
    const DType both = op::PromoteTypes(self, want);
    return ComputeTypeOf(self) == ComputeTypeOf(both) ? self : both;
  }
  return IsNarrow(want) ? DType::kS32 : want;
}

}  // namespace

Dims ReducedDims(const Dims& x, const std::vector<int64_t>& dims, bool keep) {
  std::vector<bool> reduced(kMaxRank, dims.empty());
  for (int64_t d : dims) reduced[d] = true;
  Dims y;
  for (int i = 0; i < x.rank(); ++i) {
    if (!reduced[i]) {
      y.push_back(x[i]);
    } else if (keep) {
      y.push_back(1);
    }
  }
  return y;
}

void Reduce(const char* op, const Operand& self, DType as, const Operand& y, const std::vector<int64_t>& dims,
            bool keep, OpCall* c) {
  c->op = op::FindOperator(op);
  c->inputs = {WithDType(AtLeast1d(self), as)};
  c->outputs = {y};
  c->converts_output = true;
  SetAxes(dims, keep && self.desc.dims.rank() > 0, c);
}

void AppendNorm(const Operand& x, double p, const std::vector<int64_t>& dims, bool keep, const Operand& y,
                OpCall* out, std::vector<OpCall>* calls) {
  OpCall last;
  if (p == 1 || p == 2) {
    Reduce(p == 1 ? "ReduceL1" : "ReduceL2", x, x.desc.dtype, y, dims, keep, &last);
    calls->push_back(std::move(last));
    return;
  }
  // |x|^p (|x| for the infinite ones, x != 0 for 0) in f32 or f64, reduced, and brought back.
  const DType wide = x.desc.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const ComputeType type = ComputeTypeOf(wide);
  ProgramBuilder b;
  const SlotId in = b.Input(type), magnitude = b.Unary(StageOp::kAbs, in);
  if (std::isinf(p)) {
    b.Output(magnitude);
  } else if (p == 0) {
    b.Output(b.Binary(StageOp::kGreater, magnitude, b.Const(0, type)));
  } else {
    b.Output(b.Binary(StageOp::kPow, magnitude, b.Const(p, type)));
  }
  const Operand powers = out->Temp(wide, x.desc.dims);
  calls->push_back(ProgramCall(std::move(b).Build(), {x}, {powers}));
  if (std::isinf(p) || p == 0) {
    Reduce(p == 0 ? "ReduceSum" : p > 0 ? "ReduceMax" : "ReduceMin", powers, wide, y, dims, keep, &last);
    calls->push_back(std::move(last));
    return;
  }
  const Operand sum = out->Temp(wide, ReducedDims(x.desc.dims, dims, keep));
  Reduce("ReduceSum", powers, wide, sum, dims, keep, &last);
  calls->push_back(std::move(last));
  ProgramBuilder root;
  const SlotId s = root.Input(type);
  root.Output(root.Binary(StageOp::kPow, s, root.Const(1 / p, type)));
  calls->push_back(ProgramCall(std::move(root).Build(), {sum}, {y}));
}

Status Adapt_Reduce(const Call& call, OpCall& out) {
  const bool mean = std::string_view(call.function().api) == "aclnnMean";
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const bool keep = call.Int(mean ? "keepDim" : "keepDims") != 0;
  OPSNN_ASSIGN_OR_RETURN(const auto dims, DimsOf(call, mean ? "dim" : "dims", self.desc.dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(const DType dtype, DTypeParam(call, "dtype"));
  if (mean) {
    if (!CanCast(self.desc.dtype, dtype)) {
      return BadValue(call, "dtype", Name(dtype),
                      StrFormat("types that %s, the dtype of self, casts to", Name(self.desc.dtype)));
    }
    OPSNN_RETURN_IF_ERROR(RequireCast(call, dtype, y));
  } else if (dtype != y.desc.dtype) {
    return BadValue(call, "dtype", Name(dtype), StrFormat("%s, the dtype of out", Name(y.desc.dtype)));
  }
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, y, ReducedDims(self.desc.dims, dims, keep), "the shape of the result"));
  if (dtype == DType::kBool) {  // a sum of bools is whether there is a true one
    Reduce("ReduceMax", self, DType::kBool, y, dims, keep, &out);
  } else {
    Reduce(mean ? "ReduceMean" : "ReduceSum", self, SummedAs(self.desc.dtype, dtype), y, dims, keep, &out);
  }
  return OkStatus();
}

// Infinite and negative orders have no value over no elements: there is no largest or smallest one.
Status RequireElements(const Call& call, const Operand& self, double order, const Operand& y) {
  if (order >= 0 && !std::isinf(order)) return OkStatus();
  if (NumElements(self.desc.dims) > 0 || NumElements(y.desc.dims) == 0) return OkStatus();
  return InvalidArgument("%s: self has shape %s; allowed: elements to reduce, as the order is %g",
                         call.function().api, ToString(self.desc.dims).c_str(), order);
}

Status Adapt_Norm(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const bool keep = call.Int("keepdim") != 0;
  OPSNN_ASSIGN_OR_RETURN(const double p, NumberOf(call, "pScalar"));
  OPSNN_ASSIGN_OR_RETURN(const auto dims, DimsOf(call, "dim", self.desc.dims.rank()));
  const Dims want = ReducedDims(self.desc.dims, dims, keep);
  OPSNN_RETURN_IF_ERROR(RequireShape(call, y, want, "the shape of the result"));
  OPSNN_RETURN_IF_ERROR(RequireElements(call, self, p, y));
  std::vector<OpCall> calls;
  AppendNorm(self, p, dims, keep, y, &out, &calls);
  return TakeAll(std::move(calls), &out);
}

Status Adapt_VectorNorm(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const bool keep = call.Int("keepDims") != 0;
  OPSNN_ASSIGN_OR_RETURN(const double order, NumberOf(call, "ord"));
  OPSNN_ASSIGN_OR_RETURN(const auto dims, DimsOf(call, "dims", self.desc.dims.rank()));
  OPSNN_ASSIGN_OR_RETURN(const DType dtype, DTypeParam(call, "dtype"));
  if (dtype != y.desc.dtype) {
    return BadValue(call, "dtype", Name(dtype), StrFormat("%s, the dtype of out", Name(y.desc.dtype)));
  }
  OPSNN_RETURN_IF_ERROR(
      RequireShape(call, y, ReducedDims(self.desc.dims, dims, keep), "the shape of the result"));
  OPSNN_RETURN_IF_ERROR(RequireElements(call, self, order, y));
  std::vector<OpCall> calls;
  AppendNorm(self, order, dims, keep, y, &out, &calls);
  return TakeAll(std::move(calls), &out);
}

Status Adapt_ArgMax(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  const int rank = self.desc.dims.rank();
  const bool keep = call.Int("keepdim") != 0 && rank > 0;
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), rank));
  if (rank > 0 && self.desc.dims[dim] == 0 && NumElements(y.desc.dims) > 0) {
    return InvalidArgument("%s: self has shape %s; allowed: elements along dim %d", call.function().api,
                           ToString(self.desc.dims).c_str(), dim);
  }
  const bool most = std::string_view(call.function().api) == "aclnnArgMax";
  out.op = op::FindOperator(most ? "ArgMax" : "ArgMin");
  out.attrs.Set("axis", int64_t{dim});
  out.attrs.Set("keepdims", int64_t{keep});
  out.inputs = {AtLeast1d(self)};
  out.outputs = {WithDType(y, DType::kS64)};
  return OkStatus();
}

Status Adapt_Cumsum(const Call& call, OpCall& out) {
  const Operand self = Arg(call, "self"), y = Arg(call, "out");
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  const DType dtype = y.desc.dtype;
  if (call.function().Find("dtype") >= 0) {
    OPSNN_ASSIGN_OR_RETURN(const DType asked, DTypeParam(call, "dtype"));
    if (asked != dtype) {
      return BadValue(call, "dtype", Name(asked), StrFormat("%s, the dtype of out", Name(dtype)));
    }
  } else {
    out.attrs.Set("exclusive", int64_t{call.Int("exclusive") != 0});
    out.attrs.Set("reverse", int64_t{call.Int("reverse") != 0});
  }
  OPSNN_RETURN_IF_ERROR(RequireCast(call, self.desc.dtype, y));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  const DType as = IsNarrow(dtype) ? DType::kS32 : dtype;
  out.op = op::FindOperator("CumSum");
  out.inputs = {WithDType(AtLeast1d(self), as), ConstantInt(dim)};
  out.outputs = {WithDType(AtLeast1d(y), as)};
  return OkStatus();
}

Status Adapt_Sort(const Call& call, OpCall& out) {
  const bool with_values = call.function().Find("valuesOut") >= 0;
  const Operand self = AtLeast1d(Arg(call, "self"));
  const Operand y = AtLeast1d(Arg(call, with_values ? "indicesOut" : "out"));
  OPSNN_ASSIGN_OR_RETURN(const int dim, DimOf(call, "dim", call.Int("dim"), self.desc.dims.rank()));
  OPSNN_RETURN_IF_ERROR(RequireSameShape(call, y, self));
  Operand values;
  if (with_values) {
    values = AtLeast1d(Arg(call, "valuesOut"));
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, values, self));
    OPSNN_RETURN_IF_ERROR(RequireCast(call, self.desc.dtype, values));
    values = WithDType(values, self.desc.dtype);
  }
  // The smallest or largest n of n; equal values keep their order.
  out.op = op::FindOperator("TopK");
  out.attrs.Set("axis", int64_t{dim});
  out.attrs.Set("largest", int64_t{call.Int("descending") != 0});
  out.inputs = {self, ConstantInt(self.desc.dims[dim])};
  out.outputs = {values, y};
  return OkStatus();
}

Status Adapt_Arange(const Call& call, OpCall& out) {
  const Operand y = Arg(call, "out");
  OPSNN_RETURN_IF_ERROR(RequireRank(call, y, 1, 1));
  double v[3];
  bool floats = IsFloat(y.desc.dtype);
  const char* const params[] = {"start", "end", "step"};
  for (int i = 0; i < 3; ++i) {
    OPSNN_ASSIGN_OR_RETURN(v[i], NumberOf(call, params[i]));
    const auto own = DTypeFromAcl(call.ScalarOf(params[i]).acl_dtype);
    floats = floats || !own || IsFloat(*own);
  }
  if (v[2] == 0 || std::isnan(v[2])) return BadValue(call, "step", std::to_string(v[2]), "not 0");
  if (v[2] > 0 ? !(v[0] <= v[1]) : !(v[0] >= v[1])) {
    return BadValue(call, "end", StrFormat("%g", v[1]),
                    StrFormat("%g, start, or what steps of %g lead to", v[0], v[2]));
  }
  out.op = op::FindOperator("Range");
  const int64_t n = y.desc.dims[0];
  if (!floats) {
    for (const char* p : params) {
      OPSNN_ASSIGN_OR_RETURN(const Operand o, ConstantScalar(call, p, DType::kS64));
      out.inputs.push_back(o);
    }
    out.outputs = {WithDType(y, DType::kS64)};
    return OkStatus();
  }
  // Callers reckon the size in f32 or f64, which may differ by one; the output decides between the two.
  const double exact = std::ceil((v[1] - v[0]) / v[2]);
  if (!(std::abs(static_cast<double>(n) - exact) <= 1)) {
    return InvalidArgument("%s: out has %lld elements; allowed: %g, as start, end and step say",
                           call.function().api, static_cast<long long>(n), exact);
  }
  const double limit = v[0] + (static_cast<double>(n) - 0.5) * v[2];
  for (double value : {v[0], limit, v[2]}) out.inputs.push_back(ConstantFloat(value, DType::kF64));
  out.outputs = {WithDType(y, DType::kF64)};
  return OkStatus();
}

}  // namespace opsnn::capi
