// Functions over lists of tensors: the operator's program runs once per member, in one plan. A factor is a
// scalar, a tensor of one element, or a list with one value per member.
#include "capi/adapters/common.h"
#include "op/formula.h"

namespace opsnn::capi {
namespace {

using op::Formula;
using op::Term;

// The lists of a call in the order of its parameters; the output, or what is changed in place.
struct Lists {
  std::vector<std::vector<Operand>> inputs;
  std::vector<Operand> outputs;
};

Status RequireLike(const Call& call, const std::vector<Operand>& list, const std::vector<Operand>& first,
                   const char* param, bool shapes, bool converts) {
  if (list.size() != first.size()) {
    return InvalidArgument("%s: %s has %zu tensors; allowed: %zu, as the first list", call.function().api,
                           param, list.size(), first.size());
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const bool floats = IsFloat(list[i].desc.dtype) && IsFloat(first[0].desc.dtype);
    if (!(converts && floats)) {
      const std::string whose = NameOf(call, first[0]);
      OPSNN_RETURN_IF_ERROR(RequireDType(call, list[i], first[0].desc.dtype, whose.c_str()));
    }
    if (shapes) OPSNN_RETURN_IF_ERROR(RequireSameShape(call, list[i], first[i]));
  }
  return OkStatus();
}

// shapes: do the results have the shapes of the operands?
Status FindLists(const Call& call, bool shapes, Lists* lists) {
  const auto& params = call.function().params;
  for (int p = 0; p < static_cast<int>(params.size()); ++p) {
    if (params[p].kind != ParamKind::kTensorList) continue;
    std::vector<Operand> list = Members(call, params[p].name);
    if (list.empty()) return BadValue(call, params[p].name, "an empty list", "one tensor or more");
    const bool result = params[p].dir == op::ParamDir::kOut;
    const auto& first = lists->inputs.empty() ? list : lists->inputs[0];
    const bool copies = result && call.function().op->name == "Identity";  // may change the float type
    OPSNN_RETURN_IF_ERROR(RequireLike(call, list, first, params[p].name, shapes || !result, copies));
    if (params[p].is_output()) lists->outputs = list;
    if (!result) lists->inputs.push_back(std::move(list));
  }
  return OkStatus();
}

// Integers take whole factors only.
Status RequireFactorKind(const Call& call, const char* param, DType factor, DType list) {
  if (!IsFloat(factor) || IsFloat(list)) return OkStatus();
  return BadValue(call, param, std::string("of dtype ") + Name(factor),
                  std::string("integers, as the tensors are ") + Name(list));
}

Status OneFactor(const Call& call, const char* param, const Scalar& s, DType list, Operand* factor) {
  const auto own = DTypeFromAcl(s.acl_dtype);
  if (own) OPSNN_RETURN_IF_ERROR(RequireFactorKind(call, param, *own, list));
  OPSNN_ASSIGN_OR_RETURN(*factor, ConstantFrom(call, param, s, IsHalf(list) ? DType::kF32 : list));
  return OkStatus();
}

Status FactorsOfTensor(const Call& call, int p, DType list, size_t count, std::vector<Operand>* factors) {
  const char* param = call.function().params[p].name;
  const Operand all = Arg(call, param);
  if (!all.desc.IsContiguous()) OPSNN_RETURN_IF_ERROR(RequireRank(call, all, 0, 1));
  OPSNN_RETURN_IF_ERROR(RequireFactorKind(call, param, all.desc.dtype, list));
  const int64_t n = NumElements(all.desc.dims);
  const bool each = std::string_view(param) == "scalars";  // one value per member
  if (n < 1 || (each ? n != static_cast<int64_t>(count) : n != 1)) {
    return BadValue(call, param, StrFormat("of %lld elements", static_cast<long long>(n)),
                    StrFormat("%zu", each ? count : size_t{1}));
  }
  const int64_t step = all.desc.IsContiguous() ? 1 : StridesOf(all.desc)[0];
  for (size_t i = 0; i < count; ++i) {
    Operand one = WithView(all, {}, {});
    if (each) one.offset += static_cast<int64_t>(i) * step;
    factors->push_back(one);
  }
  return OkStatus();
}

// The factor of every member; none where the function has no such parameter.
Status FindFactors(const Call& call, DType list, size_t count, std::vector<Operand>* factors) {
  const auto& params = call.function().params;
  for (int p = 0; p < static_cast<int>(params.size()); ++p) {
    if (params[p].kind == ParamKind::kTensor) return FactorsOfTensor(call, p, list, count, factors);
    if (params[p].kind == ParamKind::kScalar) {
      Operand one;
      OPSNN_RETURN_IF_ERROR(OneFactor(call, params[p].name, call.ScalarOf(params[p].name), list, &one));
      factors->assign(count, one);
    }
    if (params[p].kind != ParamKind::kScalarList) continue;
    const auto& members = static_cast<const ScalarList*>(call.arguments()[p].object.get())->members;
    if (members.size() != count) {
      return BadValue(call, params[p].name, StrFormat("a list of %zu", members.size()),
                      StrFormat("%zu, one per tensor", count));
    }
    for (const void* member : members) {
      const auto s = Table<Scalar>().Find(member);
      if (!s) return BadValue(call, params[p].name, "a list with a destroyed scalar", "live scalars");
      Operand one;
      OPSNN_RETURN_IF_ERROR(OneFactor(call, params[p].name, *s, list, &one));
      factors->push_back(one);
    }
  }
  return OkStatus();
}

// Half away from zero, and to the odd neighbour: what the stages do not have.
Term RoundAway(Formula& f, Term x) {
  const Term whole = Trunc(x), rest = Abs(x - whole);
  return Select(rest >= 0.5, whole + f.Unary(StageOp::kSign, x), whole);
}
Term RoundOdd(Formula& f, Term x) {
  const Term down = Floor(x), up = f.Unary(StageOp::kCeil, x);
  const Term even = Equal(Mod(down, 2.0), 0.0);
  return Select(Equal(x - down, 0.5), Select(even, up, down), Round(x));
}

// Operands in the order of the parameters' lists, the factor last.
Term Combine(Formula& f, std::string_view op, bool subtract, size_t lists) {
  const Term x = f.In(0);
  if (op == "AddCMul") return x + f.In(3) * f.In(1) * f.In(2);
  if (op == "AddCDiv") return x + f.In(3) * f.In(1) / f.In(2);
  if (op == "Identity") return f.Unary(StageOp::kCopy, x);
  if (op == "Round") {
    const Term mode = f.In(1);
    Term y = Select(Equal(mode, 2.0), Floor(x), Round(x));
    y = Select(Equal(mode, 3.0), f.Unary(StageOp::kCeil, x), y);
    y = Select(Equal(mode, 4.0), RoundAway(f, x), y);
    y = Select(Equal(mode, 5.0), Trunc(x), y);
    return Select(Equal(mode, 6.0), RoundOdd(f, x), y);
  }
  const Term other = lists > 1 ? f.In(2) * f.In(1) : f.In(1);
  return subtract ? x - other : x + other;
}

bool IsCombined(std::string_view op) {
  return op == "Add" || op == "AddCMul" || op == "AddCDiv" || op == "Identity" || op == "Round";
}

Result<Program> ProgramOf(const Call& call, const std::vector<Operand>& inputs, size_t lists) {
  const op::OpDef& def = *call.function().op;
  std::vector<DType> dtypes;
  for (const Operand& o : inputs) dtypes.push_back(o.desc.dtype);
  const op::Attrs none;
  op::ProgramContext context{dtypes, &none, {}};
  if (!IsCombined(def.name)) return def.program(context);
  ProgramBuilder b;
  const bool whole = !IsFloat(dtypes[0]) && def.name != "Identity";
  const bool rounds = def.name == "Round";  // of integers nothing is to round
  Formula f(b, context, ComputeTypeOf(rounds && !whole ? DType::kF32 : op::PromoteTypes(dtypes)));
  const bool subtract = std::string_view(call.function().api).find("Sub") != std::string_view::npos;
  const Term y = rounds && whole ? f.In(0) : Combine(f, def.name, subtract, lists);
  b.Output(f.Finish(y));
  return std::move(b).Build();
}

}  // namespace

Status Adapt_Foreach(const Call& call, OpCall& out) {
  Lists lists;
  OPSNN_RETURN_IF_ERROR(FindLists(call, true, &lists));
  const std::vector<Operand>& x = lists.inputs[0];
  const op::DTypeMask allowed = call.function().op->declaration->inputs[0].dtypes;
  const DType dtype = x[0].desc.dtype;
  if (!op::Contains(allowed, dtype)) {
    return BadValue(call, NameOf(call, x[0]).c_str(), std::string("of dtype ") + Name(dtype),
                    op::ToString(allowed));
  }
  std::vector<Operand> factors;
  OPSNN_RETURN_IF_ERROR(FindFactors(call, dtype, x.size(), &factors));
  const bool factor_first = call.function().params[0].kind == ParamKind::kScalar;
  std::vector<OpCall> calls;
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<Operand> inputs;
    for (const auto& list : lists.inputs) inputs.push_back(list[i]);
    if (!factors.empty()) inputs.insert(factor_first ? inputs.begin() : inputs.end(), factors[i]);
    OPSNN_ASSIGN_OR_RETURN(Program program, ProgramOf(call, inputs, lists.inputs.size()));
    calls.push_back(ProgramCall(std::move(program), std::move(inputs), {lists.outputs[i]}));
  }
  return TakeAll(std::move(calls), &out);
}

Status Adapt_ForeachZero(const Call& call, OpCall& out) {
  Lists lists;
  OPSNN_RETURN_IF_ERROR(FindLists(call, true, &lists));
  std::vector<OpCall> calls;
  for (const Operand& y : lists.outputs) {
    OpCall c;
    c.op = op::FindOperator("Identity");
    c.inputs = {BroadcastView(ConstantFloat(0, y.desc.dtype), y.desc.dims)};
    c.outputs = {y};
    calls.push_back(std::move(c));
  }
  return TakeAll(std::move(calls), &out);
}

// One number per member: (sum of |x|^p)^(1/p), the largest magnitude for an infinite p.
Status Adapt_ForeachNorm(const Call& call, OpCall& out) {
  Lists lists;
  OPSNN_RETURN_IF_ERROR(FindLists(call, false, &lists));
  OPSNN_ASSIGN_OR_RETURN(const double p, NumberOf(call, "scalar"));
  std::vector<OpCall> calls;
  for (size_t i = 0; i < lists.outputs.size(); ++i) {
    const Operand x = AtLeast1d(lists.inputs[0][i]), y = lists.outputs[i];
    if (NumElements(y.desc.dims) != 1) {
      return BadValue(call, NameOf(call, y).c_str(), "of shape " + ToString(y.desc.dims), "one element");
    }
    const Operand result = WithView(y, Dims(), Dims());
    AppendNorm(x, p, {}, false, result, &out, &calls);
  }
  return TakeAll(std::move(calls), &out);
}

// Gradients times the inverse of their scale; foundInf becomes 1 where one of them is not finite.
Status Adapt_ForeachUnscale(const Call& call, OpCall& out) {
  Lists lists;
  OPSNN_RETURN_IF_ERROR(FindLists(call, true, &lists));
  const Operand found = Arg(call, "foundInf"), scale = Arg(call, "invScale");
  for (const Operand* o : {&found, &scale}) {
    if (NumElements(o->desc.dims) == 1) continue;
    return BadValue(call, NameOf(call, *o).c_str(), "of shape " + ToString(o->desc.dims), "one element");
  }
  const Operand flag = WithView(found, Dims(), Dims());
  std::vector<OpCall> calls;
  for (const Operand& x : lists.outputs) {
    if (NumElements(x.desc.dims) == 0) continue;
    ProgramBuilder finite;  // x - x is 0, or NaN where x is not finite
    const SlotId in = finite.Input();
    finite.Output(finite.Unary(StageOp::kIsNan, finite.Binary(StageOp::kSub, in, in)));
    const Operand bad = out.Temp(DType::kF32, x.desc.dims), any = out.Temp(DType::kF32, {});
    calls.push_back(ProgramCall(std::move(finite).Build(), {x}, {bad}));
    OpCall most;
    most.op = op::FindOperator("ReduceMax");
    most.attrs.Set("keepdims", int64_t{0});
    most.inputs = {AtLeast1d(bad)};
    most.outputs = {any};
    calls.push_back(std::move(most));
    ProgramBuilder keep;
    const SlotId old = keep.Input(), fresh = keep.Input();
    keep.Output(keep.Ternary(StageOp::kSelect, fresh, keep.Const(1), old));
    calls.push_back(ProgramCall(std::move(keep).Build(), {flag, any}, {flag}));
    ProgramBuilder times;
    const SlotId a = times.Input(), b = times.Input();
    times.Output(times.Binary(StageOp::kMul, a, b));
    calls.push_back(ProgramCall(std::move(times).Build(), {x, WithView(scale, {}, {})}, {x}));
  }
  if (calls.empty()) return BadValue(call, "scaledGrads", "without elements", "one tensor with elements");
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
