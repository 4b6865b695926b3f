#include "capi/function.h"

#include <map>
#include <memory>

namespace opsnn::capi {
namespace {

// Types are matched by name, qualifiers and spaces aside.
ParamKind KindOfParam(std::string_view ctype) {
  std::string t;
  for (size_t i = 0; i < ctype.size(); ++i) {
    if (ctype.substr(i, 5) == "const") {
      i += 4;
    } else if (ctype[i] != ' ') {
      t += ctype[i];
    }
  }
  static constexpr struct {
    const char* type;
    ParamKind kind;
  } kKinds[] = {{"aclTensor*", ParamKind::kTensor},       {"aclTensorList*", ParamKind::kTensorList},
                {"aclScalar*", ParamKind::kScalar},       {"aclScalarList*", ParamKind::kScalarList},
                {"aclIntArray*", ParamKind::kIntArray},   {"aclFloatArray*", ParamKind::kFloatArray},
                {"aclBoolArray*", ParamKind::kBoolArray}, {"char*", ParamKind::kString},
                {"double", ParamKind::kDouble},           {"float", ParamKind::kDouble}};
  for (const auto& k : kKinds) {
    if (t == k.type) return k.kind;
  }
  return t.back() == '*' ? ParamKind::kPointer : ParamKind::kInt;
}

std::unique_ptr<OpsnnFunction> Resolve(const op::OpDef& def, const op::AclnnDecl& row, uint32_t id) {
  auto f = std::make_unique<OpsnnFunction>();
  f->api = row.api;
  f->id = id;
  f->op = &def;
  f->declaration = &row;
  for (const op::AclnnParam& p : row.params) {
    f->params.push_back({p.name, KindOfParam(p.ctype), p.dir, p.optional, false, 0});
  }
  for (const op::AclnnDTypes& d : row.dtypes) {
    f->params[static_cast<size_t>(d.param)].has_dtypes = true;
    f->params[static_cast<size_t>(d.param)].dtypes = d.dtypes;
  }
  if (row.adapter && *row.adapter) {
    for (const AdapterEntry& a : AdapterTable()) {
      if (std::string_view(a.name) == row.adapter) f->adapter = a.adapter;
    }
  }
  return f;
}

const std::map<std::string_view, std::unique_ptr<OpsnnFunction>>& Functions() {
  static const auto* functions = [] {
    auto* all = new std::map<std::string_view, std::unique_ptr<OpsnnFunction>>;
    uint32_t id = 0;
    for (const op::OpDef* def : op::AllOperators()) {
      for (const op::AclnnDecl& row : def->declaration->aclnn)
        all->emplace(row.api, Resolve(*def, row, id++));
    }
    return all;
  }();
  return *functions;
}

}  // namespace
}  // namespace opsnn::capi

int OpsnnFunction::Find(std::string_view name) const {
  for (size_t i = 0; i < params.size(); ++i) {
    if (name == params[i].name) return static_cast<int>(i);
  }
  return -1;
}

const OpsnnFunction* opsnn_aclnn_find(const char* api) {
  try {
    const auto& all = opsnn::capi::Functions();
    auto it = all.find(api);
    return it == all.end() ? nullptr : it->second.get();
  } catch (const std::exception&) {
    return nullptr;
  }
}
