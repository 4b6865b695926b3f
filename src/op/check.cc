// Check: a call against its declaration. Every message names operator, argument, what it got, what is
// allowed.
#include "op/declaration.h"
#include "op/operator.h"

namespace opsnn::op {
namespace {

const OperandDecl& InputDecl(const Declaration& d, size_t i) {
  return i < d.inputs.size() ? d.inputs[i] : d.inputs.back();  // members of a variadic input share its row
}

std::string InputName(const Declaration& d, size_t i) {
  const OperandDecl& decl = InputDecl(d, i);
  return decl.variadic ? StrFormat("%s[%zu]", decl.name, i - (d.inputs.size() - 1)) : decl.name;
}

Status CheckInputCount(const Declaration& d, const InferContext& c) {
  size_t required = 0;
  for (size_t i = 0; i < d.inputs.size(); ++i) {
    if (!d.inputs[i].optional) required = i + 1;
  }
  const bool variadic = !d.inputs.empty() && d.inputs.back().variadic;
  if (c.inputs.size() < required) {
    return InvalidArgument("%s: got %zu inputs; allowed: at least %zu (%s is missing)", d.name,
                           c.inputs.size(), required, d.inputs[c.inputs.size()].name);
  }
  if (!variadic && c.inputs.size() > d.inputs.size()) {
    return InvalidArgument("%s: got %zu inputs; allowed: at most %zu", d.name, c.inputs.size(),
                           d.inputs.size());
  }
  return OkStatus();
}

Status CheckInputs(const Declaration& d, const InferContext& c) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const OperandDecl& decl = InputDecl(d, i);
    const TensorDesc* x = c.inputs[i];
    if (x == nullptr) {
      if (decl.optional) continue;
      return Errorf(Code::kNull, "%s: input %s is null; it is required", d.name, InputName(d, i).c_str());
    }
    if (!Contains(decl.dtypes, x->dtype)) {
      return InvalidArgument("%s: input %s has dtype %s; allowed: %s", d.name, InputName(d, i).c_str(),
                             Name(x->dtype), ToString(decl.dtypes).c_str());
    }
    if (decl.same_as < 0) continue;
    const TensorDesc* first = c.inputs[static_cast<size_t>(decl.same_as)];
    if (first != nullptr && first->dtype != x->dtype) {
      return InvalidArgument("%s: input %s has dtype %s; allowed: %s, the dtype of input %s", d.name,
                             InputName(d, i).c_str(), Name(x->dtype), Name(first->dtype),
                             d.inputs[static_cast<size_t>(decl.same_as)].name);
    }
  }
  return OkStatus();
}

std::string AttrNames(const Declaration& d) {
  std::string names;
  for (const AttrDecl& a : d.attrs) names += (names.empty() ? "" : ", ") + std::string(a.name);
  return names.empty() ? "none" : names;
}

// An int may stand for a float, and an empty list has no element type of its own.
bool TypeFits(AttrType want, const AttrValue& v) {
  if (static_cast<int>(want) == static_cast<int>(v.index())) return true;
  if (want == AttrType::kFloat) return std::holds_alternative<int64_t>(v);
  const auto* ints = std::get_if<std::vector<int64_t>>(&v);
  return (want == AttrType::kFloats || want == AttrType::kStrings) && ints != nullptr && ints->empty();
}

Status CheckValue(const Declaration& d, const AttrDecl& decl, const AttrValue& v) {
  std::string got, allowed;
  if (const auto* i = std::get_if<int64_t>(&v); i != nullptr && !decl.int_values.empty()) {
    for (int64_t a : decl.int_values) {
      if (a == *i) return OkStatus();
      allowed += (allowed.empty() ? "" : ", ") + std::to_string(a);
    }
    got = std::to_string(*i);
  } else if (const auto* s = std::get_if<std::string>(&v); s != nullptr && !decl.string_values.empty()) {
    for (const char* a : decl.string_values) {
      if (*s == a) return OkStatus();
      allowed += (allowed.empty() ? "\"" : ", \"") + std::string(a) + "\"";
    }
    got = "\"" + *s + "\"";
  } else {
    return OkStatus();
  }
  return InvalidArgument("%s: attribute %s is %s; allowed: %s", d.name, decl.name, got.c_str(),
                         allowed.c_str());
}

Status CheckAttrs(const Declaration& d, const Attrs& attrs) {
  for (const auto& [name, value] : attrs.all()) {
    const AttrDecl* decl = d.FindAttr(name);
    if (decl == nullptr) {
      return InvalidArgument("%s: unknown attribute %s; allowed: %s", d.name, name.c_str(),
                             AttrNames(d).c_str());
    }
    if (!TypeFits(decl->type, value)) {
      return InvalidArgument("%s: attribute %s has type %s; allowed: %s", d.name, decl->name,
                             Name(static_cast<AttrType>(value.index())), Name(decl->type));
    }
    OPSNN_RETURN_IF_ERROR(CheckValue(d, *decl, value));
  }
  return OkStatus();
}

}  // namespace

Status Check(const OpDef& def, const InferContext& c) {
  const Declaration& d = *def.declaration;
  OPSNN_RETURN_IF_ERROR(CheckInputCount(d, c));
  OPSNN_RETURN_IF_ERROR(CheckInputs(d, c));
  const bool many_outputs = d.outputs.back().variadic;
  if (c.num_outputs < 1 || (!many_outputs && c.num_outputs > static_cast<int>(d.outputs.size()))) {
    return InvalidArgument("%s: got %d outputs; allowed: 1 to %zu", d.name, c.num_outputs, d.outputs.size());
  }
  if (c.attrs != nullptr) OPSNN_RETURN_IF_ERROR(CheckAttrs(d, *c.attrs));
  for (const AttrDecl& a : d.attrs) {
    if (a.required && (c.attrs == nullptr || !c.attrs->Has(a.name))) {
      return InvalidArgument("%s: attribute %s is missing; it is required", d.name, a.name);
    }
  }
  return def.check ? def.check(c) : OkStatus();
}

}  // namespace opsnn::op
