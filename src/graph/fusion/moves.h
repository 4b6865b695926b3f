// Edges at which nothing but the order, the type or the presence of values changes: transposes, casts, masks.
// No pass weighs them, because there is one way to run each; explain shows what that way costs and the other
// would.
#ifndef OPSNN_GRAPH_FUSION_MOVES_H_
#define OPSNN_GRAPH_FUSION_MOVES_H_

#include "base/knobs.h"
#include "device/profile.h"
#include "graph/ir/graph.h"

namespace opsnn::graph {

// Appends decisions to g: transposes that a product reads through, transposes and casts that stay passes of
// their own, random masks applied where they are drawn. `imported`: what g's origins refer to.
void RecordMoves(const Graph& imported, const device::DeviceProfile& profile, FusionMode fusion, Graph& g);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_FUSION_MOVES_H_
