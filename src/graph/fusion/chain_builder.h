// ChainBuilder: one vector program out of a group of pointwise nodes.
//
// Nodes are added in topological order. A value that a node of the group computed is taken from its slot, any
// other becomes an input of the program (once), a constant of one element becomes an immediate. Where the
// numerics policy keeps intermediate roundings, a half-precision intermediate is rounded in its slot.
#ifndef OPSNN_GRAPH_FUSION_CHAIN_BUILDER_H_
#define OPSNN_GRAPH_FUSION_CHAIN_BUILDER_H_

#include <memory>
#include <optional>
#include <vector>

#include "base/knobs.h"
#include "graph/ir/graph.h"
#include "op/pointwise.h"

namespace opsnn::graph {

// Can this node be part of a group: a pointwise program over dtypes that a slot holds exactly?
bool IsFusablePointwise(const Graph& g, const Node& n);

// The program of a node for operands of these dtypes and constants; it does not depend on their dims.
struct BoundNode {
  struct Operand {
    DType dtype = DType::kF32;
    ConstTensor constant;  // held, so that its address stands for it
  };
  const op::OpDef* op = nullptr;
  std::vector<Operand> operands;
  std::optional<op::BoundProgram> program;  // nullopt: there is none that could be part of a group
};

// Binds the programs of all nodes of a graph: copies of it, for whatever shapes, then find them bound.
void BindNodes(Graph& g);

// The programs of a graph's nodes, each bound when it is first asked for, if it is not yet. Growing groups
// asks about a node many times; what a node computes does not change while other nodes join groups.
class NodePrograms {
 public:
  explicit NodePrograms(const Graph& g) : g_(g), bound_(g.nodes.size()) {}
  // Null where IsFusablePointwise(n) is false.
  const op::BoundProgram* Fusable(NodeId n);

 private:
  const Graph& g_;
  struct Entry {
    bool known = false;
    std::shared_ptr<const BoundNode> bound;  // null: not fusable
  };
  std::vector<Entry> bound_;  // by node; nodes that a pass adds are not asked about
};

class ChainBuilder {
 public:
  ChainBuilder(const Graph& g, NumericsPolicy policy);

  // Makes v the program's next input; used for input 0 of an epilogue.
  void AddInput(ValueId v);
  // Input v holds more bits than its dtype: nodes added later see it rounded.
  void RoundAsStored(ValueId v);
  // False, leaving everything as it was, if the node cannot be expressed or the program would grow too large.
  bool AddNode(const Node& n);
  bool AddNode(const Node& n, const op::BoundProgram& program);

  // The program whose only output is v, which must have been computed.
  Program Build(ValueId output) const;
  const std::vector<ValueId>& inputs() const { return inputs_; }

 private:
  struct VStage {
    StageOp op;
    int dst;
    int src[3];
    double imm[2];
  };
  int NewSlot(ComputeType type);
  int Emit(StageOp op, int a, int b, int c, double imm0, double imm1, ComputeType type);
  void AddInput(ValueId v, ComputeType wanted);
  int OperandSlot(ValueId v, ComputeType type);
  int Find(ValueId v) const;  // its slot, or -1
  int StoredSlot(ValueId output) const;

  const Graph* g_;
  NumericsPolicy policy_;
  std::vector<ComputeType> slots_;  // numbered as they appear; Build renumbers with inputs first
  std::vector<VStage> stages_;
  std::vector<ValueId> inputs_;
  std::vector<std::pair<ValueId, int>> slot_of_;
  std::vector<int> input_slots_;
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_FUSION_CHAIN_BUILDER_H_
