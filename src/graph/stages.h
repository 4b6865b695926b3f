// Models whose sizes depend on values that only a run tells: cut in two where that begins.
//
// The head is everything whose sizes follow from the shapes that are fed; it is planned, fused and run like
// any model. The rest is a session of its own, whose inputs are what the head hands over. Those that sizes
// depend on (the operands of a NonZero, a shape that was computed) are part of what it prepares for, like
// shapes; in it they are constants, so that sizes behind them are known. The rest may have to be cut again.
// docs/design/0003-sizes-from-values.md.
#ifndef OPSNN_GRAPH_STAGES_H_
#define OPSNN_GRAPH_STAGES_H_

#include <set>
#include <string>
#include <vector>

#include "graph/ir/graph.h"

namespace opsnn::graph {

struct Split {
  Graph head, rest;
  std::vector<int> handed;  // by input of the rest: which output of the head, or -1: the feed of that name
  std::vector<int>
      from_head;  // by output of the model: which output of the head, or -1: the next of the rest
  std::set<std::string> decisive;  // inputs of the rest that sizes depend on
};

// `open` says of each node of an inferred graph whether its sizes are unknown. An error where a node's sizes
// depend on large values in a way that is not known here.
Result<Split> SplitGraph(const Graph& g, const std::vector<bool>& open);

// May the values of this tensor be what a shape, an axis or a scale is made from?
bool IsSmall(DType dtype, const Dims& dims);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_STAGES_H_
