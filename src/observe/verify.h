// verify: recomputes every node of a run in double precision, on that node's own inputs, and compares.
//
// Both forms of a model are checked, fused and unfused. A fused node is recomputed through the original nodes
// it stands for, from the values that the fused run really read, so an error shows at the node that made it
// and not at all nodes behind it. The results of the model are compared with what the imported graph says
// they are, and values that both forms have with each other:
//   exact policy: bit by bit;
//   excess policy: the difference must be explained by the differences of the node's own inputs, carried
//   through the node to first order, plus its rounding in both runs. So the allowance grows along a model
//   just as its conditioning lets differences grow.
// When something fails in the fused form, verify searches for the graph pass at fault: it repeats the run
// with the passes from one on switched off and finds the one with which the failure appears.
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
  bool checked = true;  // false: there was nothing to compare with, `note` says why
  std::string note;
};

struct VerifyReport {
  bool ok = true;
  int nodes = 0;      // values checked
  int unchecked = 0;  // values without a reference
  NodeCheck worst;
  std::string first_bad;         // node; "" when all are in bounds
  std::string first_difference;  // the first value where fused and unfused differ too much, with figures
  std::string guilty_pass;       // "" when nothing failed, or when it fails with every pass off
  std::vector<NodeCheck> checks;
};

// done and total count steps of both forms.
using VerifyProgress = std::function<void(int done, int total)>;
Result<VerifyReport> Verify(graph::Session& fused, graph::Session& unfused, const graph::Feeds& feeds,
                            const VerifyProgress& progress);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_VERIFY_H_
