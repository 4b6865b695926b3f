// Nodes that store integers where a product's chain ends: QuantizeLinear, and Cast from a float type. They
// compute in f32 and convert as they store, so only the last node of a chain can be one.
#ifndef OPSNN_GRAPH_FUSION_STORING_H_
#define OPSNN_GRAPH_FUSION_STORING_H_

#include <optional>
#include <utility>
#include <vector>

#include "graph/passes/rewriter.h"
#include "op/pointwise.h"

namespace opsnn::graph {

// Is n such a node?
bool StoresIntegers(const Graph& g, const Node& n);

class StoringNodes {
 public:
  // Looks at the nodes that the graph has now. A scale or zero point per row gets a second value whose dims
  // broadcast to the result; where it is not constant, nothing computes that value before Use.
  explicit StoringNodes(Rewriter& r);

  // `node` reads operands that broadcast to its result by numpy's rules.
  struct Storing {
    Node node;
    op::BoundProgram program;
  };
  // Null where n is none.
  const Storing* Find(NodeId n) const;
  // v is an operand of a chain that will run: makes what computes it.
  void Use(ValueId v);

 private:
  ValueId Broadcast(const Node& n, ValueId v);

  Rewriter& r_;
  std::vector<std::optional<Storing>> nodes_;      // by node
  std::vector<std::pair<ValueId, Node>> waiting_;  // values per row and what computes them
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_FUSION_STORING_H_
