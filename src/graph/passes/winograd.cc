#include "graph/ir/known_ops.h"
#include "graph/passes/passes.h"
#include "op/advice.h"

namespace opsnn::graph {

Status WinogradTiles(Graph& g, PassContext& c) {
  if (!Known().Conv) return OkStatus();
  const auto& tile_of = op::AdviceOf(*Known().Conv).winograd_tile;
  for (Node& n : g.nodes) {
    if (n.dead || n.op != Known().Conv || n.inputs.size() < 2 || n.attrs.Has("winograd")) continue;
    const op::TensorDesc &x = g.values[n.inputs[0]].desc, &w = g.values[n.inputs[1]].desc;
    // Weights are transformed once. The algorithm is one of dense square kernels.
    if (!w.constant || w.dims.rank() != 4 || w.dims[2] != w.dims[3] || w.dims[2] == 1) continue;
    if (x.dims.rank() != 4 || x.dims[1] != w.dims[1]) continue;
    ++c.matches;
    const int tile = tile_of(x, w, n.attrs);
    if (tile == 0) continue;
    n.attrs.Set("winograd", int64_t{tile});
    ++c.effects;
  }
  return OkStatus();
}

}  // namespace opsnn::graph
