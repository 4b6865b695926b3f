#include "observe/variants.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "graph/prepared.h"
#include "op/traits.h"

namespace opsnn::observe {
namespace {

// One operand of an example: "f32", "u8:4x4c", "512", or "2;1", a constant of s64 that holds a 1.
Result<op::TensorDesc> Operand(const std::string& text, DType dtype) {
  op::TensorDesc d;
  d.dtype = dtype;
  if (const size_t semicolon = text.find(';'); semicolon != std::string::npos) {
    const int64_t value = std::atoll(text.c_str() + semicolon + 1);
    d.dtype = DType::kS64;
    d.constant = HostTensor::From<int64_t>({1}, {value});
    d.dims = {1};
    return d;
  }
  std::string dims = text;
  if (const size_t colon = text.find(':'); colon != std::string::npos) {
    const auto type = DTypeFromName(text.substr(0, colon));
    if (!type) return InvalidArgument("example: unknown element type in \"%s\"", text.c_str());
    d.dtype = *type;
    dims = text.substr(colon + 1);
  }
  const bool constant = dims.back() == 'c';
  if (constant) dims.pop_back();
  std::stringstream sizes(dims);
  for (std::string size; std::getline(sizes, size, 'x');) d.dims.push_back(std::atoll(size.c_str()));
  if (!constant) return d;
  auto t = std::make_shared<HostTensor>(d.dtype, d.dims);
  if (!t->ok()) return Errorf(Code::kRuntime, "example: no memory for a constant");
  std::fill_n(t->as<char>(), t->bytes(), char{0});
  d.constant = std::move(t);
  return d;
}

op::AttrValue AttrOf(const std::string& text) {
  if (text.find('.') != std::string::npos) return std::strtod(text.c_str(), nullptr);
  if (text.find(',') == std::string::npos) return static_cast<int64_t>(std::atoll(text.c_str()));
  std::vector<int64_t> ints;
  std::stringstream list(text);
  for (std::string i; std::getline(list, i, ',');) ints.push_back(std::atoll(i.c_str()));
  return ints;
}

}  // namespace

std::vector<VariantRow> VariantsOf(const op::OpDef& op) {
  std::vector<VariantRow> rows;
  for (const op::VariantDecl& v : op::TraitsOf(op).variants)
    rows.push_back({op.name.c_str(), v.name, v.when, v.example});
  if (!rows.empty()) return rows;
  if (op.program) return {{op.name.c_str(), "program", "every call: one pass over blocks in L1d", ""}};
  return {{op.name.c_str(), "", "every call: one kernel", ""}};
}

Result<std::string> PlanExample(const VariantRow& row) {
  const op::OpDef* def = op::FindOperator(row.op);
  if (!def) return InvalidArgument("example: there is no operator %s", row.op);
  std::stringstream words(row.example);
  std::string word;
  words >> word;
  const auto dtype = DTypeFromName(word);
  if (!dtype) return InvalidArgument("example: unknown element type \"%s\"", word.c_str());
  std::vector<op::TensorDesc> descs;
  op::Attrs attrs;
  while (words >> word) {
    if (const size_t eq = word.find('='); eq != std::string::npos) {
      attrs.Set(word.substr(0, eq), AttrOf(word.substr(eq + 1)));
      continue;
    }
    OPSNN_ASSIGN_OR_RETURN(op::TensorDesc d, Operand(word, *dtype));
    descs.push_back(std::move(d));
  }
  std::vector<const op::TensorDesc*> inputs;
  for (const op::TensorDesc& d : descs) inputs.push_back(&d);
  op::InferContext infer;
  infer.inputs = inputs;
  infer.attrs = &attrs;
  OPSNN_RETURN_IF_ERROR(op::Infer(*def, infer));
  graph::WeightPacks packs;
  op::PlanContext plan;
  plan.inputs = inputs;
  plan.outputs = infer.outputs;
  plan.attrs = &attrs;
  plan.packs = &packs;
  OPSNN_ASSIGN_OR_RETURN(const op::KernelPtr kernel, op::Plan(*def, plan));
  return kernel->variant();
}

}  // namespace opsnn::observe
