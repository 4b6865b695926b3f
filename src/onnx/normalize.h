// Normalisation: every operator is brought to its latest opset form before it enters the graph.
//
// A rule edits a Call in place: attributes become inputs, old defaults become explicit, renamed operators get
// their new name. Rules are one table by operator and opset range (normalize.cc); operators without a row are
// taken as they are.
#ifndef OPSNN_ONNX_NORMALIZE_H_
#define OPSNN_ONNX_NORMALIZE_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "graph/ir/graph.h"

namespace opsnn::onnx {

// A node on its way into the graph.
struct Call {
  std::string op_type, name;
  std::vector<graph::ValueId> inputs;  // kNoValue where absent
  std::vector<std::string> outputs;    // "" where absent
  op::Attrs attrs;
};

// The graph under construction, as rules see it.
class GraphBuilder {
 public:
  explicit GraphBuilder(graph::Graph* g) : g_(*g) {}
  graph::Graph& graph() { return g_; }
  const op::TensorDesc& Desc(graph::ValueId v) const { return g_.values[v].desc; }

  graph::ValueId Ints(const Call& c, const char* what, const std::vector<int64_t>& values);
  graph::ValueId Floats(const Call& c, const char* what, const std::vector<double>& values);
  // A scalar of dtype `like`.
  graph::ValueId Scalar(const Call& c, const char* what, double value, DType like);

  // Adds the call as a node and infers its outputs as far as known shapes allow. New values are named as in
  // `outputs`. Unknown operators, wrong attributes and operands are errors that name the node.
  Status Emit(Call c, int64_t opset);
  // Emits a helper node with one output and returns that value.
  Result<graph::ValueId> EmitHelper(Call c, int64_t opset);
  Result<graph::ValueId> Find(const std::string& value) const;
  bool Has(const std::string& value) const { return by_name_.count(value) != 0; }
  Status Define(const std::string& value, graph::ValueId v);  // an error if the name is taken

 private:
  graph::ValueId Const(const Call& c, const char* what, ConstTensor t);
  DType DeclaredDType(const op::OpDef& def, const Call& c, size_t i) const;
  graph::Graph& g_;
  std::unordered_map<std::string, graph::ValueId> by_name_;
};

// Brings the call from `opset` to the latest form. May emit helper nodes before it. A call that is completely
// replaced (Constant) comes back with an empty op_type.
Status Normalize(GraphBuilder& b, Call& c, int64_t opset);

}  // namespace opsnn::onnx

#endif  // OPSNN_ONNX_NORMALIZE_H_
