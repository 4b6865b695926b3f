// Comparing one value of a run with its recomputation, and one step with all its values.
#ifndef OPSNN_OBSERVE_CHECK_H_
#define OPSNN_OBSERVE_CHECK_H_

#include <string>
#include <vector>

#include "observe/recompute.h"
#include "observe/verify.h"

namespace opsnn::observe {

// The tile of Winograd's algorithm with which a node ran, or 0.
int WinogradTile(const graph::Node& node);

// `got` against its recomputation: error at most kBoundFactor * want.error + 2 * eps(storage) * |value|. With
// own_only without the part of the error that came with the operands.
NodeCheck CheckValue(const HostTensor& got, const Bounded& want, bool own_only = false);

// Checks of every value that the step produced. Layout conversions that passes inserted stand for no node and
// give none: their values are checked by their readers.
std::vector<NodeCheck> CheckStep(const graph::Node& node, const std::vector<std::string>& values,
                                 const Form& form, const graph::Graph& imported, Recomputer& recomputer);

// The same after the recomputer has evaluated the step's nodes, with `evaluated` as the outcome.
std::vector<NodeCheck> CheckEvaluated(const graph::Node& node, const std::vector<std::string>& values,
                                      const Form& form, const graph::Graph& imported,
                                      const Recomputer& recomputer, const Status& evaluated, bool own_only);

// The results of the model against what its outputs should be.
std::vector<NodeCheck> CheckOutputs(const Form& form, const graph::Graph& imported, Recomputer& recomputer);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_CHECK_H_
