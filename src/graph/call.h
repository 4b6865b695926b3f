// From a graph node to the contexts of the operator framework: infer, plan, and evaluate on constants.
#ifndef OPSNN_GRAPH_CALL_H_
#define OPSNN_GRAPH_CALL_H_

#include <vector>

#include "graph/ir/graph.h"

namespace opsnn::graph {

// Check and shape inference of one node from its inputs' descs; sets dtype and dims of its outputs. Only for
// nodes without a fused tail: what fusion adds has its shapes already.
Status InferNode(Graph& g, const Node& n);

// Plans one node with the descs (dims, layouts, constants) that its values have now.
Result<op::KernelPtr> PlanNode(const Graph& g, const Node& n, op::PackCache* packs);

// Could the node run on images of bytes in blocks of channels?
bool BlocksBytes(const Graph& g, const Node& n);

// Plans and runs a node whose inputs are all constants (or, with `unread_inputs`, are not read at all), and
// returns its outputs, null where absent.
Result<std::vector<ConstTensor>> EvaluateNode(const Graph& g, const Node& n);

// A Program that reduces the trailing dims of its operands: it is not elementwise, so that it is neither
// computed in place nor in another layout.
bool IsRowProgram(const Node& n);

// Bytes of a value as stored in its layout.
size_t StoredBytes(const op::TensorDesc& d);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_CALL_H_
