#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {

Status Swish(Graph& g, PassContext& c) {
  const op::OpDef* op = Known().Swish;
  if (!op) return OkStatus();
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  for (NodeId mul = 0; mul < count; ++mul) {
    if (!r.Is(mul, Known().Mul) || g.nodes[mul].inputs.size() != 2) continue;
    for (int i : {0, 1}) {
      const ValueId x = g.nodes[mul].inputs[i];
      const NodeId sigmoid = r.Producer(g.nodes[mul].inputs[1 - i], Known().Sigmoid);
      if (sigmoid < 0 || g.nodes[sigmoid].inputs[0] != x) continue;
      ++c.matches, ++c.effects;
      r.Replace(mul, op, {x}, {}, {sigmoid, mul});
      break;
    }
  }
  return OkStatus();
}

}  // namespace opsnn::graph
