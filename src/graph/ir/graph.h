// Graph IR: operators and the values between them.
//
// Values are single-assignment and named as in the model. A node refers to its operator by OpDef; `tail` is
// set when a pointwise chain was fused: behind a cube operator (takes_tail) or as a node of its own (operator
// "Program"). Every fused node remembers the original nodes it stands for, so that verify can recompute it
// and explain can name it.
#ifndef OPSNN_GRAPH_IR_GRAPH_H_
#define OPSNN_GRAPH_IR_GRAPH_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/ir/node_attrs.h"
#include "op/operator.h"
#include "plan/decision.h"

namespace opsnn::graph {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr ValueId kNoValue = -1;  // an absent optional input or output

// A value that a pass made: the elements of one of the model's, its dims in another order.
struct Reordered {
  std::string of;             // the model's name
  std::vector<int64_t> perm;  // dim i is dim perm[i] of the model's value
};

struct Value {
  std::string name;
  op::TensorDesc desc;                 // constant set for initialisers and folded values
  std::vector<std::string> dim_names;  // symbolic names of unknown dims at the graph's border, "" elsewhere
  NodeId producer = -1;                // -1: graph input or constant
  ConstTensor stored;  // a constant's bytes in desc.layout, where they differ from desc.constant
  int64_t offset = 0;  // elements from the start of the value that it is part of; see Aliasing
  std::shared_ptr<const Reordered> reordered;  // null: none

  bool IsConstant() const { return producer < 0 && (desc.constant != nullptr || stored != nullptr); }
};

// Nodes that run nothing because their operands are the same memory.
enum class Aliasing : uint8_t {
  kNone,
  kOutputsAreParts,  // every output is a part of input 0: desc.strides and offset say which elements
  kInputsAreParts,   // every input is written by its producer into its part of output 0
};

struct BoundNode;  // fusion/chain_builder.h

struct Node {
  std::string name;  // the model's node name, or "<op>_<index>"
  const op::OpDef* op = nullptr;
  NodeAttrs attrs;
  std::vector<ValueId> inputs;  // the operator's inputs, then the tail program's inputs 1..
  std::vector<ValueId> outputs;
  int num_op_inputs = 0;  // how many of `inputs` belong to the operator itself
  std::shared_ptr<const op::FusedTail> tail;
  std::vector<NodeId> origins;             // node ids of the imported graph that this node stands for
  std::shared_ptr<const BoundNode> bound;  // what it computes, for whoever asks again; null where nobody did
  Aliasing aliasing = Aliasing::kNone;
  bool dead = false;
};

// What a model says of one of its values, which need not be true.
struct Declared {
  const char* kind = "value";  // "output" or "value", for messages
  std::string value;
  std::optional<DType> dtype;
  bool known_rank = false;
  Dims dims;
  std::vector<std::string> dim_names;
};

class Graph {
 public:
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;               // in topological order after Sort()
  std::vector<ValueId> inputs, outputs;  // inputs: those that must be fed (initialisers are not inputs)
  // Initialisers that the model lists as inputs as well: constants here, unless the caller feeds a value.
  // `as_input` is what the input is declared as.
  struct Default {
    ValueId value = kNoValue;
    Value as_input;
  };
  std::vector<Default> defaults;
  std::vector<Declared> declared;
  std::vector<plan::Decision> decisions;  // one per edge that could fuse

  ValueId AddValue(Value v);
  ValueId AddConstant(std::string name, ConstTensor t);
  NodeId AddNode(Node n);
  bool IsOutput(ValueId v) const;
  void ReplaceUses(ValueId from, ValueId to);  // also in outputs
  // Stable topological order; drops dead nodes, renumbers producers; error on a cycle. Node ids change.
  Status Sort();
  // Drops values that nothing refers to. Value ids change.
  void DropUnusedValues();
  // Marks nodes dead whose outputs nobody uses. Returns how many.
  int RemoveUnused();
  std::string ToString() const;  // readable dump, one node a line

 private:
  bool InOrder() const;
  void Take(const std::vector<NodeId>& order);
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_IR_GRAPH_H_
