#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {

// There and back is nothing; several conversions in a row are one. The middle value stays for its other
// readers.
Status TransDataMerge(Graph& g, PassContext& c) {
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  for (NodeId n = 0; n < count; ++n) {
    if (!r.Is(n, Known().TransData)) continue;
    const NodeId before = r.Producer(g.nodes[n].inputs[0], Known().TransData);
    if (before < 0) continue;
    const ValueId x = g.nodes[before].inputs[0], middle = g.nodes[n].inputs[0], y = g.nodes[n].outputs[0];
    if (r.desc(x).dtype != r.desc(middle).dtype) continue;  // a conversion of dtype between them rounds
    ++c.matches;
    if (r.desc(x).layout == r.desc(y).layout && r.desc(x).dtype == r.desc(y).dtype && !r.IsOutput(y)) {
      r.ReplaceUses(y, x);
      r.Kill(n);
    } else {
      r.SetInput(n, 0, x);
    }
    if (r.Users(middle).empty() && !r.IsOutput(middle)) r.Kill(before);
    ++c.effects;
  }
  return OkStatus();
}

}  // namespace opsnn::graph
