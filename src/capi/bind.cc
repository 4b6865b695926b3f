// The generic adapter: operands and attributes as the declaration's bind says.
#include <algorithm>
#include <cstring>

#include "capi/plan.h"
#include "op/pointwise.h"
#include "tensor/element.h"

namespace opsnn::capi {
namespace {

// The parameter bound to an operand or attribute, or -1.
int BoundParam(const OpsnnFunction& f, std::string_view operand) {
  for (const op::AclnnBind& b : f.declaration->bind) {
    if (operand == b.operand) return b.param;
  }
  return -1;
}

void AppendOperands(const Call& call, int param, std::vector<Operand>* operands) {
  const Argument* a = param < 0 ? nullptr : &call.arguments()[param];
  if (!a || a->num_tensors == 0) {
    operands->push_back({});
    return;
  }
  for (int t = a->first_tensor; t < a->first_tensor + a->num_tensors; ++t)
    operands->push_back({t, call.Desc(t)});
}

Status NoNumber(const Call& call, int param, const Scalar& s) {
  return InvalidArgument("%s: %s is a scalar of type %s; allowed: a real number that fits",
                         call.function().api, call.function().params[param].name,
                         AclTypeName(s.acl_dtype).c_str());
}

// An integer that picks among the values of a string attribute, in their order.
Status ReadChoice(const Call& call, int param, const op::AttrDecl& decl, op::Attrs* attrs) {
  const int64_t i = call.arguments()[param].raw.i;
  const auto n = static_cast<int64_t>(decl.string_values.size());
  if (i >= 0 && i < n) {
    attrs->Set(decl.name, std::string(decl.string_values[static_cast<size_t>(i)]));
    return OkStatus();
  }
  std::string allowed;
  for (int64_t v = 0; v < n; ++v) {
    allowed += StrFormat("%s%lld (%s)", v ? ", " : "", static_cast<long long>(v),
                         decl.string_values[static_cast<size_t>(v)]);
  }
  return InvalidArgument("%s: %s is %lld; allowed: %s", call.function().api,
                         call.function().params[param].name, static_cast<long long>(i), allowed.c_str());
}

bool IsIntegerScalar(const Scalar& s) {
  const auto t = DTypeFromAcl(s.acl_dtype);
  return t && !IsFloat(*t) && s.ToInt();
}

Status ReadAttr(const Call& call, int param, const op::AttrDecl& decl, op::Attrs* attrs) {
  const Argument& a = call.arguments()[param];
  const ParamKind kind = call.function().params[param].kind;
  if (!a.given) return OkStatus();
  const auto* scalar = kind == ParamKind::kScalar ? static_cast<const Scalar*>(a.object.get()) : nullptr;
  switch (decl.type) {
    case op::AttrType::kInt: {
      if (scalar && !scalar->ToInt()) return NoNumber(call, param, *scalar);
      attrs->Set(decl.name, scalar ? *scalar->ToInt() : a.raw.i);
      return OkStatus();
    }
    case op::AttrType::kFloat: {
      if (scalar && !scalar->ToDouble()) return NoNumber(call, param, *scalar);
      if (scalar && IsIntegerScalar(*scalar)) {
        attrs->Set(decl.name, *scalar->ToInt());  // all its bits: a double holds 53
      } else {
        attrs->Set(decl.name, scalar                       ? *scalar->ToDouble()
                              : kind == ParamKind::kDouble ? a.raw.d
                                                           : static_cast<double>(a.raw.i));
      }
      return OkStatus();
    }
    case op::AttrType::kString:
      if (kind == ParamKind::kInt) return ReadChoice(call, param, decl, attrs);
      attrs->Set(decl.name, std::string(static_cast<const char*>(a.raw.p)));
      return OkStatus();
    case op::AttrType::kInts:
      attrs->Set(decl.name, static_cast<const IntArray*>(a.object.get())->values);
      return OkStatus();
    case op::AttrType::kFloats: {
      const auto& v = static_cast<const FloatArray*>(a.object.get())->values;
      attrs->Set(decl.name, std::vector<double>(v.begin(), v.end()));
      return OkStatus();
    }
    default:
      return Errorf(Code::kInternal, "%s: attribute %s cannot be bound to %s", call.function().api, decl.name,
                    call.function().params[param].name);
  }
}

// The dtype in which a tensor of type t meets a scalar: its own, unless the scalar is of a higher kind. Then
// an integer brings its type and a float f32.
DType MeetScalar(DType t, const Scalar& s) {
  const auto own = DTypeFromAcl(s.acl_dtype);
  const DType type = !own ? DType::kS64 : IsFloat(*own) ? DType::kF32 : *own;
  return CanCast(type, t) ? t : type;
}

ConstTensor MakeConstant(const Scalar& s, DType t) {
  auto c = std::make_shared<HostTensor>(t, Dims());
  if (IsFloat(t) || !IsIntegerScalar(s)) {
    WriteElement(c->data(), t, *s.ToDouble());
  } else {
    const int64_t v = t == DType::kBool ? *s.ToInt() != 0 : *s.ToInt();
    std::memcpy(c->data(), &v, SizeOf(t));  // narrower types take the low bytes, as a C cast does
  }
  return c;
}

constexpr op::DTypeMask kOnlyBool = 1 << static_cast<int>(DType::kBool);

// A dtype that the function takes and its operator does not is converted on the way: to a truth value where
// that is all the operator takes, to a wider integer that holds it, else to f32.
DType ComputedIn(DType t, op::DTypeMask allowed) {
  if (op::Contains(allowed, t)) return t;
  if (allowed == kOnlyBool) return DType::kBool;  // x != 0
  if (IsFloat(t)) return t;
  for (DType wider : {DType::kS16, DType::kS32, DType::kS64}) {
    if (SizeOf(wider) > SizeOf(t) && op::Contains(allowed, wider)) return wider;
  }
  return op::Contains(allowed, DType::kF32) ? DType::kF32 : t;
}

void WidenInputs(const op::Declaration& d, std::vector<Operand>* inputs) {
  for (size_t i = 0; i < inputs->size(); ++i) {
    op::TensorDesc& desc = (*inputs)[i].desc;
    if ((*inputs)[i].tensor >= 0)
      desc.dtype = ComputedIn(desc.dtype, d.inputs[std::min(i, d.inputs.size() - 1)].dtypes);
  }
}

bool SharesDType(const op::Declaration& d) {
  for (const op::OperandDecl& in : d.inputs) {
    if (in.same_as >= 0) return true;
  }
  return false;
}

// Scalars that stand for inputs become constants of the type in which all operands meet.
Status BindScalarInputs(const Call& call, OpCall* out) {
  const OpsnnFunction& f = call.function();
  std::vector<DType> types;
  for (const Operand& o : out->inputs) {
    if (o.tensor >= 0) types.push_back(o.desc.dtype);
  }
  std::vector<std::pair<size_t, const Scalar*>> scalars;
  for (size_t i = 0; i < out->inputs.size() && i < f.op->declaration->inputs.size(); ++i) {
    const int param = BoundParam(f, f.op->declaration->inputs[i].name);
    if (param < 0 || f.params[param].kind != ParamKind::kScalar || !call.arguments()[param].given) continue;
    const auto* s = static_cast<const Scalar*>(call.arguments()[param].object.get());
    if (!s->ToDouble()) return NoNumber(call, param, *s);
    scalars.push_back({i, s});
  }
  DType common = types.empty() ? DType::kF32 : op::PromoteTypes(types);
  for (const auto& [i, s] : scalars)
    common = ComputedIn(MeetScalar(common, *s), f.op->declaration->inputs[i].dtypes);
  // Where the function promotes and its operator does not, the tensors are converted to the common type.
  if (f.declaration->casts == op::AclnnCasts::kPromotes) {
    for (Operand& o : out->inputs) o.desc.dtype = common;
  }
  // Halves compute in f32, so the scalar is not rounded; but they compare in their own type.
  const bool compares = f.op->declaration->outputs[0].dtypes == kOnlyBool;
  for (const auto& [i, s] : scalars) {
    op::TensorDesc& d = out->inputs[i].desc;
    d.constant = MakeConstant(*s, IsHalf(common) && !compares ? DType::kF32 : common);
    d.dtype = common;
  }
  return OkStatus();
}

void SetFixed(const OpsnnFunction& f, op::Attrs* attrs) {
  for (const op::AclnnSet& s : f.declaration->set) {
    if (s.type == op::AttrType::kInt) attrs->Set(s.attr, s.int_value);
    if (s.type == op::AttrType::kFloat) attrs->Set(s.attr, s.float_value);
    if (s.type == op::AttrType::kString) attrs->Set(s.attr, std::string(s.string_value));
  }
}

// By default outputs convert where operands promote: several inputs that need not share one dtype.
bool ConvertsOutput(const OpsnnFunction& f) {
  if (f.declaration->casts != op::AclnnCasts::kDefault) return f.declaration->casts != op::AclnnCasts::kNo;
  return f.op->program && f.op->declaration->inputs.size() > 1 && !SharesDType(*f.op->declaration);
}

}  // namespace

Status BindFromDeclaration(const Call& call, OpCall& out) {
  const OpsnnFunction& f = call.function();
  const op::Declaration& d = *f.op->declaration;
  out.op = f.op;
  for (const op::OperandDecl& in : d.inputs) AppendOperands(call, BoundParam(f, in.name), &out.inputs);
  for (const op::OperandDecl& o : d.outputs) AppendOperands(call, BoundParam(f, o.name), &out.outputs);
  WidenInputs(d, &out.inputs);
  OPSNN_RETURN_IF_ERROR(BindScalarInputs(call, &out));
  SetFixed(f, &out.attrs);
  for (const op::AttrDecl& attr : d.attrs) {
    const int param = BoundParam(f, attr.name);
    if (param >= 0) OPSNN_RETURN_IF_ERROR(ReadAttr(call, param, attr, &out.attrs));
  }
  out.converts_output = ConvertsOutput(f);
  return OkStatus();
}

}  // namespace opsnn::capi
