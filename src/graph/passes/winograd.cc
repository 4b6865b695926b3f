#include "graph/ir/known_ops.h"
#include "graph/passes/passes.h"
#include "ops/conv/conv_op.h"

namespace opsnn::graph {

Status WinogradTiles(Graph& g, PassContext& c) {
  for (Node& n : g.nodes) {
    if (n.dead || n.op != Known().Conv || n.inputs.size() < 2 || n.attrs.Has("winograd")) continue;
    const op::TensorDesc &x = g.values[n.inputs[0]].desc, &w = g.values[n.inputs[1]].desc;
    if (!w.constant) continue;  // weights are transformed once
    ++c.matches;
    const int tile = ops::WinogradTile(x, w, n.attrs);
    if (tile == 0) continue;
    n.attrs.Set("winograd", int64_t{tile});
    ++c.effects;
  }
  return OkStatus();
}

}  // namespace opsnn::graph
