// Rewriter: edits a graph while keeping, for every value, who reads it. What passes share.
#ifndef OPSNN_GRAPH_PASSES_REWRITER_H_
#define OPSNN_GRAPH_PASSES_REWRITER_H_

#include <optional>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "graph/ir/known_ops.h"
#include "graph/passes/node_list.h"

namespace opsnn::graph {

class Rewriter {
 public:
  explicit Rewriter(Graph& g);

  Graph& graph() { return g_; }
  Node& node(NodeId n) { return g_.nodes[n]; }
  Value& value(ValueId v) { return g_.values[v]; }
  const op::TensorDesc& desc(ValueId v) const { return g_.values[v].desc; }
  NodeId num_nodes() const { return static_cast<NodeId>(g_.nodes.size()); }

  // ---- asking ----
  // The live node that computes v with this operator and no tail, else -1.
  NodeId Producer(ValueId v, const op::OpDef* op) const;
  NodeId Producer(ValueId v) const;
  const NodeList& Users(ValueId v) const { return users_[v]; }
  bool IsOutput(ValueId v) const { return is_output_[v]; }
  // Exactly one node reads v, and it is no graph output.
  bool SingleUse(ValueId v) const { return users_[v].size() == 1 && !is_output_[v]; }
  bool Is(NodeId n, const op::OpDef* op) const {
    return !g_.nodes[n].dead && g_.nodes[n].op == op && !g_.nodes[n].tail;
  }
  // The value of a constant of one element.
  std::optional<double> Scalar(ValueId v) const;
  // The same, where broadcasting it with `x` keeps the rank of x.
  std::optional<double> ScalarBeside(ValueId v, ValueId x) const;
  // For a binary node: the operand that is not `v` (v itself for v op v); kNoValue if v is no operand.
  ValueId Other(NodeId n, ValueId v) const;
  // For a binary node with one scalar constant operand that adds no dims: the other operand and the constant.
  struct WithScalar {
    ValueId x = kNoValue;
    double c = 0;
  };
  std::optional<WithScalar> SplitScalar(NodeId n) const;

  // ---- changing ----
  ValueId AddConstant(const std::string& name, ConstTensor t);
  ValueId AddValue(Value v);
  // A value beside `like`, whose size is not known yet.
  ValueId AddUnsized(ValueId like, const char* suffix, DType dtype);
  NodeId AddNode(Node n);
  NodeId AddNode(const op::OpDef* op, std::string name, std::vector<ValueId> inputs,
                 std::vector<ValueId> outputs);
  // `made` takes the place of n and of p, whose result n reads: their names, n's results, both as origins.
  NodeId ReplaceBoth(NodeId p, NodeId n, Node made);
  void SetInput(NodeId n, size_t i, ValueId v);
  // All readers of `from`, and the graph outputs, take `to`. A graph output keeps its name.
  void ReplaceUses(ValueId from, ValueId to);
  void Kill(NodeId n);
  // `n` is replaced by a new node of operator `op` on `inputs` that computes the same value; nodes in
  // `absorbed` (n among them) die where nobody else needs them, and all are its origins.
  NodeId Replace(NodeId n, const op::OpDef* op, std::vector<ValueId> inputs, op::Attrs attrs,
                 const std::vector<NodeId>& absorbed);
  // `into` produces what `n` produced, in place of its own output 0; n dies and becomes one of its origins.
  void Absorb(NodeId into, NodeId n);

 private:
  void RemoveUser(ValueId v, NodeId n);
  void AddUser(ValueId v, NodeId n);
  Graph& g_;
  std::vector<NodeList> users_;  // by value
  std::vector<bool> is_output_;
};

// The permutation of a Transpose node; reversed is the default.
std::vector<int64_t> TransposePerm(const Rewriter& r, const Node& n);

// A known f32 bias of one value per channel.
bool IsBias(const op::TensorDesc& d, int64_t channels);

// A value equals `want` up to the rounding of a float constant.
bool Near(double got, double want);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PASSES_REWRITER_H_
