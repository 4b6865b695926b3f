// Region: a group of pointwise nodes that may run as one program.
#ifndef OPSNN_GRAPH_FUSION_REGION_H_
#define OPSNN_GRAPH_FUSION_REGION_H_

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "graph/passes/rewriter.h"

namespace opsnn::graph {

// Longest group considered; programs beyond it cost registers and code without saving traffic.
inline constexpr size_t kMaxRegion = 64;

struct Region {
  std::vector<NodeId> nodes;  // pointwise nodes in topological order, without the seed
  ValueId output = kNoValue;  // the last node's
};

// Is one of the readers of v such a node? Where none is, no group grows behind v.
template <typename Eligible>
bool AnyReader(const Rewriter& r, ValueId v, const Eligible& eligible) {
  return std::any_of(r.Users(v).begin(), r.Users(v).end(), eligible);
}

// Grows a group behind `seed` (a cube operator, or the first pointwise node): nodes that read a value of the
// group, and nodes that compute an operand for such a node alone, and that `eligible` accepts, in topological
// order, as far as only the last value is visible outside the group. That also rules out cycles: every path
// out of the group starts at its last value. A value with readers outside therefore ends the group before it.
Region GrowRegion(Rewriter& r, NodeId seed, const std::function<bool(NodeId)>& eligible);

// "conv+add+relu": lower-case operator names.
std::string ChainName(const Graph& g, NodeId seed, const std::vector<NodeId>& nodes);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_FUSION_REGION_H_
