#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

bool IsReshape(const Rewriter& r, NodeId n) {
  const KnownOps& k = Known();
  return n >= 0 && (r.Is(n, k.Reshape) || r.Is(n, k.Flatten) || r.Is(n, k.Squeeze) || r.Is(n, k.Unsqueeze));
}

}  // namespace

// A reshape of a reshape reads what the first one read; with the shape it started from it disappears.
Status ReshapeSimplification(Graph& g, PassContext& c) {
  const op::OpDef* reshape = Known().Reshape;
  if (!reshape) return OkStatus();
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  for (NodeId n = 0; n < count; ++n) {
    if (!IsReshape(r, n)) continue;
    const NodeId before = r.Producer(g.nodes[n].inputs[0]);
    const ValueId y = g.nodes[n].outputs[0];
    if (!IsReshape(r, before) || !IsKnown(r.desc(y).dims)) continue;
    ++c.matches;
    const ValueId middle = g.nodes[n].inputs[0], x = g.nodes[before].inputs[0];
    if (r.desc(x).dims == r.desc(y).dims && !r.IsOutput(y)) {
      r.ReplaceUses(y, x);
      r.Kill(n);
      if (r.Users(middle).empty() && !r.IsOutput(middle)) r.Kill(before);
    } else {
      if (NumElements(r.desc(y).dims) == 0) continue;  // a 0 in a target shape has a meaning of its own
      const std::vector<int64_t> dims(r.desc(y).dims.begin(), r.desc(y).dims.end());
      const ValueId to = r.AddConstant(g.nodes[n].name + "/shape",
                                       HostTensor::From<int64_t>({static_cast<int64_t>(dims.size())}, dims));
      r.Replace(n, reshape, {x, to}, {}, {before, n});
    }
    ++c.effects;
  }
  return OkStatus();
}

}  // namespace opsnn::graph
