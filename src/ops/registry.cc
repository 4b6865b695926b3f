// The registry: OpDefs built once from the generated table.
#include <algorithm>
#include <memory>

#include "op/declaration.h"
#include "op/operator.h"
#include "op/pointwise.h"

namespace opsnn::op {
namespace {

int MinInputs(const Declaration& d) {
  int n = 0;
  for (size_t i = 0; i < d.inputs.size(); ++i) {
    if (!d.inputs[i].optional) n = static_cast<int>(i) + 1;
  }
  return n;
}

int MaxInputs(const Declaration& d) {
  constexpr int kUnbounded = 1 << 20;
  return !d.inputs.empty() && d.inputs.back().variadic ? kUnbounded : static_cast<int>(d.inputs.size());
}

std::unique_ptr<const OpDef> MakeOperator(const OperatorEntry& entry) {
  auto def = std::make_unique<OpDef>();
  const Declaration& d = *entry.declaration;
  def->name = d.name;
  def->declaration = &d;
  def->op_class = d.op_class;
  def->layout = d.layout;
  def->takes_tail = d.takes_tail;
  def->min_inputs = MinInputs(d);
  def->max_inputs = MaxInputs(d);
  entry.define(*def);
  if (def->program) {
    const OpDef* self = def.get();
    if (!def->infer) def->infer = [self](InferContext& c) { return InferPointwise(*self, c); };
    if (!def->plan) def->plan = [self](const PlanContext& c) { return PlanPointwise(*self, c); };
  }
  return def;
}

struct Registry {
  std::vector<std::unique_ptr<const OpDef>> owned;
  std::vector<const OpDef*> sorted;
};

const Registry& GetRegistry() {
  static const Registry* registry = [] {  // never destroyed: kernels may outlive static destruction
    auto* r = new Registry;
    for (const OperatorEntry& entry : OperatorTable()) {
      r->owned.push_back(MakeOperator(entry));
      r->sorted.push_back(r->owned.back().get());
    }
    return r;
  }();
  return *registry;
}

}  // namespace

const OpDef* FindOperator(std::string_view name) {
  const auto& ops = GetRegistry().sorted;
  auto it = std::lower_bound(ops.begin(), ops.end(), name,
                             [](const OpDef* def, std::string_view n) { return def->name < n; });
  return it != ops.end() && (*it)->name == name ? *it : nullptr;
}

std::span<const OpDef* const> AllOperators() { return GetRegistry().sorted; }

}  // namespace opsnn::op
