// Control flow. A node that holds graphs (If, Loop, Scan) is no kernel: once it is known what it runs, that
// takes its place, and everything behind it is inferred, fused and laid out as if the model had been written
// so. Until then its results have no sizes, and the model is cut there (stages.h).
#ifndef OPSNN_GRAPH_CONTROL_H_
#define OPSNN_GRAPH_CONTROL_H_

#include <vector>

#include "graph/ir/graph.h"

namespace opsnn::graph {

// The graphs of such a node: of an If its branches, of a Loop or Scan its body. Their inputs are the node's
// last operands. They travel in an attribute; null where a node holds none.
const std::vector<Graph>* BodiesOf(const Node& n);
void SetBodies(Node& n, std::vector<Graph> bodies);

// Does the node hold graphs, and are the values and sizes known that say which of them runs, how often?
bool IsDecided(const Graph& g, const Node& n);

// Replaces every node that IsDecided: an If by its branch, a Loop by one pass and a Loop of what is left, or
// by its results, a Scan by its passes. Nodes inside have no origins. The graph is in order again.
Status InlineDecided(Graph& g);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_CONTROL_H_
