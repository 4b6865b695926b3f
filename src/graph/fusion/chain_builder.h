// ChainBuilder: one vector program out of a group of pointwise nodes.
//
// Nodes are added in topological order. A value that a node of the group computed is taken from its slot, any
// other becomes an input of the program (once), a constant of one element becomes an immediate. Where the
// numerics policy keeps intermediate roundings, a half-precision intermediate is rounded in its slot.
#ifndef OPSNN_GRAPH_FUSION_CHAIN_BUILDER_H_
#define OPSNN_GRAPH_FUSION_CHAIN_BUILDER_H_

#include <map>
#include <vector>

#include "base/knobs.h"
#include "graph/ir/graph.h"

namespace opsnn::graph {

// Can this node be part of a group: a pointwise program over dtypes that a slot holds exactly?
bool IsFusablePointwise(const Graph& g, const Node& n);

class ChainBuilder {
 public:
  ChainBuilder(const Graph& g, NumericsPolicy policy) : g_(&g), policy_(policy) {}

  // Makes v the program's next input; used for input 0 of an epilogue.
  void AddInput(ValueId v);
  // False, leaving everything as it was, if the node cannot be expressed or the program would grow too large.
  bool AddNode(const Node& n);

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
  int OperandSlot(ValueId v, ComputeType type);

  const Graph* g_;
  NumericsPolicy policy_;
  std::vector<ComputeType> slots_;  // numbered as they appear; Build renumbers with inputs first
  std::vector<VStage> stages_;
  std::vector<ValueId> inputs_;
  std::map<ValueId, int> slot_of_;
  std::vector<int> input_slots_;
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_FUSION_CHAIN_BUILDER_H_
