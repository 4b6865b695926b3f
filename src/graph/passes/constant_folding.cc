#include "graph/infer.h"
#include "graph/passes/passes.h"

namespace opsnn::graph {

Status ConstantFolding(Graph& g, PassContext& c) {
  InferOptions o;
  o.concrete = false;
  OPSNN_ASSIGN_OR_RETURN(c.effects, InferGraph(g, o));
  c.matches = c.effects;
  return OkStatus();
}

}  // namespace opsnn::graph
