#include "graph/passes/passes.h"

namespace opsnn::graph {

Status DeadCode(Graph& g, PassContext& c) {
  c.matches = c.effects = g.RemoveUnused();
  return OkStatus();
}

}  // namespace opsnn::graph
