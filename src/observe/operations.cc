// What operators compute that are neither one contraction nor one program, as their declarations say.
#include "observe/traffic.h"
#include "op/advice.h"
#include "op/traits.h"

namespace opsnn::observe {
namespace {

using Descs = std::vector<const op::TensorDesc*>;

Descs DescsOf(const graph::Graph& g, const std::vector<graph::ValueId>& list, size_t count) {
  Descs descs;
  for (size_t i = 0; i < std::min(count, list.size()); ++i)
    descs.push_back(list[i] < 0 ? nullptr : &g.values[list[i]].desc);
  return descs;
}

double Elements(const Descs& descs) {
  return descs.empty() || !descs[0] ? 0 : static_cast<double>(NumElements(descs[0]->dims));
}

}  // namespace

double OtherOperations(const graph::Graph& g, const graph::Node& n) {
  const Descs in = DescsOf(g, n.inputs, static_cast<size_t>(n.num_op_inputs)),
              out = DescsOf(g, n.outputs, n.outputs.size());
  if (const auto& steps = op::AdviceOf(*n.op).steps) return steps(in, out, n.attrs);
  const op::Traits& traits = op::TraitsOf(*n.op);
  if (traits.steps > 0) return traits.steps * Elements(in);
  if (traits.window_steps == 0) return -1;
  double window = traits.window_steps;
  for (const int64_t k : n.attrs.Ints("kernel_shape")) window *= static_cast<double>(k);
  return window * Elements(out);
}

}  // namespace opsnn::observe
