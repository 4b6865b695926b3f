#include <algorithm>

#include "capi/listing.h"
#include "observe/variants.h"
#include "op/declaration.h"
#include "opsnn/system.h"

namespace opsnn {
namespace {

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> out;
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    const size_t begin = list.find_first_not_of(' ', at);
    if (begin < comma) out.push_back(list.substr(begin, comma - begin));
    at = comma + 1;
  }
  return out;
}

std::vector<OperatorVariant> VariantsOf(const std::string& name) {
  std::vector<OperatorVariant> list;
  const op::OpDef* def = op::FindOperator(name);
  if (!def) return list;
  for (const observe::VariantRow& r : observe::VariantsOf(*def)) list.push_back({r.name, r.when, r.example});
  return list;
}

}  // namespace

std::vector<OperatorListing> ListOperators() {
  std::vector<OperatorListing> out;
  for (const op::OperatorEntry& e : op::OperatorTable()) {
    const op::Declaration& d = *e.declaration;
    out.push_back({"", d.name, "implemented",
                   d.inputs.empty() ? std::vector<std::string>() : Split(op::ToString(d.inputs[0].dtypes)),
                   d.doc, VariantsOf(d.name)});
  }
  for (const capi::ApiRow& row : capi::ApiRows()) {
    out.push_back(
        {row.api, row.op, row.implemented ? "implemented" : "declared", Split(row.dtypes), row.text, {}});
  }
  return out;
}

}  // namespace opsnn
