// The generic adapter: operands and attributes as the declaration's bind says.
#include "capi/plan.h"

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
      attrs->Set(decl.name, scalar                       ? *scalar->ToDouble()
                            : kind == ParamKind::kDouble ? a.raw.d
                                                         : static_cast<double>(a.raw.i));
      return OkStatus();
    }
    case op::AttrType::kString:
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

}  // namespace

Status BindFromDeclaration(const Call& call, OpCall& out) {
  const OpsnnFunction& f = call.function();
  const op::Declaration& d = *f.op->declaration;
  out.op = f.op;
  for (const op::OperandDecl& in : d.inputs) AppendOperands(call, BoundParam(f, in.name), &out.inputs);
  for (const op::OperandDecl& o : d.outputs) AppendOperands(call, BoundParam(f, o.name), &out.outputs);
  for (const op::AttrDecl& attr : d.attrs) {
    const int param = BoundParam(f, attr.name);
    if (param >= 0) OPSNN_RETURN_IF_ERROR(ReadAttr(call, param, attr, &out.attrs));
  }
  // Functions of several tensors promote; their result is then cast to the output's type.
  out.converts_output = f.op->program && out.inputs.size() > 1;
  return OkStatus();
}

}  // namespace opsnn::capi
