// Shape inference over a whole graph, folding what can be computed ahead.
#ifndef OPSNN_GRAPH_INFER_H_
#define OPSNN_GRAPH_INFER_H_

#include <vector>

#include "graph/ir/graph.h"

namespace opsnn::graph {

struct InferOptions {
  // Nodes on constants are replaced by their result. Without it the results are still known to inference (a
  // Reshape needs them), but the nodes stay and run.
  bool fold = true;
  // Every dim must come out known, and a failing node is an error; else such nodes are passed over.
  bool concrete = true;
  // A folded result may be no larger than this, or than four times the node's inputs, beyond 1 GiB
  // than those.
  size_t max_fold_bytes = size_t{1} << 20;
  // By node: set where sizes depend on values that are not known, which is then no error.
  std::vector<bool>* open = nullptr;
};

// Nodes must be in topological order. Returns the number of nodes folded; they are marked dead.
Result<int> InferGraph(Graph& g, const InferOptions& options);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_INFER_H_
