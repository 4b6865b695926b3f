// verify: recomputes every node of a run in double precision, on that node's own inputs, and compares.
//
// Both forms of a model are checked, fused and unfused. A fused node is recomputed through the original nodes
// it stands for, from the values that the fused run really read, so an error shows at the node that made it
// and not at all nodes behind it. Besides, values that both runs have are compared with each other.
#ifndef OPSNN_OBSERVE_VERIFY_H_
#define OPSNN_OBSERVE_VERIFY_H_

#include <functional>
#include <string>
#include <vector>

#include "graph/session.h"

namespace opsnn::observe {

struct NodeCheck {
  std::string node, op;
  double cosine = 1, max_abs = 0, max_rel = 0;
  double bound = 0;  // of the element that came closest to (or furthest over) its bound
  double share = 0;  // max over elements of error / bound: above 1 is out of bounds
  bool ok = true;
  std::string note;
};

struct VerifyReport {
  bool ok = true;
  int nodes = 0;
  NodeCheck worst;
  std::string first_bad;
  std::string first_difference;
  std::vector<NodeCheck> checks;
};

Result<VerifyReport> Verify(graph::Session& fused, graph::Session& unfused, const graph::Feeds& feeds,
                            const std::function<void(int, int)>& progress);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_VERIFY_H_
