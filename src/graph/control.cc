#include "graph/control.h"

#include <algorithm>

#include "graph/ir/known_ops.h"
#include "tensor/element.h"

namespace opsnn::graph {
namespace {

constexpr int64_t kMostPasses = 1024;
constexpr size_t kMostNodes = size_t{1} << 18;  // of a model in which loops of loops took their places
constexpr const char* kBodies = "bodies";
constexpr const char* kPasses = "passes";

// An attribute holds tensors; this one has graphs with it. Its address alone says whether two are the same.
struct Bodies : HostTensor {
  explicit Bodies(std::vector<Graph> list) : HostTensor(DType::kBool, Dims{}), graphs(std::move(list)) {}
  std::vector<Graph> graphs;
};

bool IsIf(const Node& n) { return n.op->name == "If"; }

ConstTensor ConstantOf(const Graph& g, const Node& n, size_t i) {
  return i < n.inputs.size() && n.inputs[i] != kNoValue ? g.values[n.inputs[i]].desc.constant : nullptr;
}
ConstTensor True() {
  auto t = std::make_shared<HostTensor>(DType::kBool, Dims{});
  WriteElement(t->data(), DType::kBool, 1);
  return t;
}
bool IsGiven(const Node& n, size_t i) { return i < n.inputs.size() && n.inputs[i] != kNoValue; }

class Inliner {
 public:
  Inliner(Graph& g, NodeId id) : g_(g), node_(std::move(g.nodes[id])) {
    g_.nodes[id].dead = true;
    // Values are known by their names, and those of nodes may be given twice.
    for (const ValueId v : node_.outputs)
      if (v != kNoValue && place_.empty()) place_ = g_.values[v].name;
    if (!IsIf(node_)) place_ += "/" + std::to_string(node_.attrs.Int(kPasses, 0));
  }

  Status Run() { return IsIf(node_) ? Branch() : Passes(); }

 private:
  Status Branch() {
    OPSNN_ASSIGN_OR_RETURN(const double cond, Number(0));
    const std::vector<Graph>& bodies = *BodiesOf(node_);
    const size_t then = bodies[0].inputs.size();
    const auto captured = node_.inputs.begin() + 1;
    std::vector<ValueId> operands =
        cond != 0 ? std::vector<ValueId>(captured, captured + static_cast<ptrdiff_t>(then))
                  : std::vector<ValueId>(captured + static_cast<ptrdiff_t>(then), node_.inputs.end());
    const Graph& body = bodies[cond != 0 ? 0 : 1];
    const std::vector<ValueId> results = Copy(body, operands);
    for (size_t i = 0; i < node_.outputs.size(); ++i) Name(node_.outputs[i], results[i]);
    return OkStatus();
  }

  // One pass and a loop of the others, or what the passes gave.
  Status Passes() {
    const Graph& body = BodiesOf(node_)->front();
    const int64_t done = node_.attrs.Int(kPasses, 0);
    const auto states = static_cast<size_t>(node_.attrs.Int("states", 0));
    const size_t captured = body.inputs.size() - kBodyOperands - states;
    bool runs = true;
    if (IsGiven(node_, 0)) {
      OPSNN_ASSIGN_OR_RETURN(const double most, Number(0));
      runs = static_cast<double>(done) < most;
    }
    if (IsGiven(node_, 1)) {
      OPSNN_ASSIGN_OR_RETURN(const double cond, Number(1));
      runs = runs && cond != 0;
    }
    if (!runs) return Finish(body, done, states, captured);
    if (done >= kMostPasses)
      return Errorf(Code::kNotImplemented, "node \"%s\" (Loop): more than %lld passes are not supported.",
                    node_.name.c_str(), static_cast<long long>(kMostPasses));
    const auto at = node_.inputs.begin() + kBodyOperands;
    std::vector<ValueId> operands = {Constant("pass", HostTensor::From<int64_t>({}, {done})),
                                     Constant("go", True())};
    operands.insert(operands.end(), at, at + static_cast<ptrdiff_t>(states + captured));
    const std::vector<ValueId> results = Copy(body, operands);
    Node rest = node_;
    rest.attrs.Set(kPasses, done + 1);
    rest.inputs[1] = Origin(results[0]);  // mostly the condition of this pass, handed on
    for (size_t i = 0; i < states; ++i) rest.inputs[kBodyOperands + i] = results[1 + i];
    for (size_t i = 1 + states; i < results.size(); ++i) rest.inputs.push_back(InFront(results[i], i));
    rest.num_op_inputs = static_cast<int>(rest.inputs.size());
    g_.AddNode(std::move(rest));
    return OkStatus();
  }

  Status Finish(const Graph& body, int64_t done, size_t states, size_t captured) {
    for (size_t i = 0; i < node_.outputs.size(); ++i) {
      if (node_.outputs[i] == kNoValue) continue;
      if (i < states) {
        Name(node_.outputs[i], node_.inputs[kBodyOperands + i]);
        continue;
      }
      if (done == 0) {  // no pass: an empty first axis
        const op::TensorDesc& one = body.values[body.outputs[1 + i]].desc;
        Dims dims{0};
        for (const int64_t d : one.dims) dims.push_back(std::max<int64_t>(d, 0));
        Name(node_.outputs[i], Constant("none", std::make_shared<HostTensor>(one.dtype, dims)));
        continue;
      }
      Node all;
      all.name = node_.name + "/scan_" + std::to_string(i);
      all.op = Known().Concat;
      all.attrs.Set("axis", int64_t{0});
      const size_t scans = node_.outputs.size() - states, first = kBodyOperands + states + captured;
      for (int64_t pass = 0; pass < done; ++pass)
        all.inputs.push_back(node_.inputs[first + static_cast<size_t>(pass) * scans + i - states]);
      all.num_op_inputs = static_cast<int>(all.inputs.size());
      all.outputs = {node_.outputs[i]};
      g_.AddNode(std::move(all));
    }
    return OkStatus();
  }

  Result<double> Number(size_t i) const {
    const ConstTensor t = ConstantOf(g_, node_, i);
    if (t && t->size() == 1) return ReadElement(t->data(), t->dtype());
    return InvalidArgument("node \"%s\" (%s): %s has %lld values; allowed: 1.", node_.name.c_str(),
                           node_.op->name.c_str(), i == 0 && !IsIf(node_) ? "M" : "cond",
                           static_cast<long long>(t ? t->size() : 0));
  }

  ValueId Constant(const char* what, ConstTensor t) {
    return g_.AddConstant(place_ + "/" + what, std::move(t));
  }

  // The graph's own value for every result of the body.
  std::vector<ValueId> Copy(const Graph& body, const std::vector<ValueId>& operands) {
    std::vector<ValueId> here(body.values.size(), kNoValue);
    for (size_t i = 0; i < body.inputs.size(); ++i) here[static_cast<size_t>(body.inputs[i])] = operands[i];
    for (size_t v = 0; v < body.values.size(); ++v) {
      if (here[v] != kNoValue) continue;
      Value copy = body.values[v];
      copy.name = place_ + "/" + copy.name;
      if (copy.producer >= 0) copy.desc.known_rank = false, copy.desc.dims = {};
      copy.producer = -1;
      here[v] = g_.AddValue(std::move(copy));
    }
    const auto map = [&](std::vector<ValueId>& list) {
      for (ValueId& v : list)
        if (v != kNoValue) v = here[static_cast<size_t>(v)];
    };
    for (const Node& n : body.nodes) {
      Node copy = n;
      copy.name = node_.name + "/" + n.name;
      copy.origins.clear();
      map(copy.inputs);
      map(copy.outputs);
      g_.AddNode(std::move(copy));
    }
    std::vector<ValueId> results = body.outputs;
    map(results);
    return results;
  }

  ValueId Origin(ValueId v) const {
    for (;;) {
      const NodeId p = g_.values[v].producer;
      if (p < 0 || g_.nodes[p].op != Known().Identity) return v;
      v = g_.nodes[p].inputs[0];
    }
  }

  // `known` is the model's name for `v`.
  void Name(ValueId known, ValueId v) {
    if (known == kNoValue) return;
    Node same;
    same.name = node_.name + "/" + g_.values[known].name;
    same.op = Known().Identity;
    same.inputs = {v};
    same.num_op_inputs = 1;
    same.outputs = {known};
    g_.AddNode(std::move(same));
  }

  // Result i of a pass as one row of the scan output.
  ValueId InFront(ValueId v, size_t i) {
    Value row;
    row.name = place_ + "/row_" + std::to_string(i);
    row.desc.dtype = g_.values[v].desc.dtype;
    row.desc.known_rank = false;
    Node n;
    n.name = row.name;
    n.op = Known().Unsqueeze;
    n.inputs = {v, Constant("axes", HostTensor::From<int64_t>({1}, {0}))};
    n.num_op_inputs = 2;
    n.outputs = {g_.AddValue(std::move(row))};
    const ValueId out = n.outputs[0];
    g_.AddNode(std::move(n));
    return out;
  }

  static constexpr size_t kBodyOperands = 2;  // of a loop: its number and the condition
  Graph& g_;
  const Node node_;
  std::string place_;  // in front of the names of the values that are added
};

}  // namespace

const std::vector<Graph>* BodiesOf(const Node& n) {
  if (n.op->op_class != op::OpClass::kControl || !n.attrs.Has(kBodies)) return nullptr;
  return &static_cast<const Bodies*>(n.attrs.get().Tensor(kBodies).get())->graphs;
}

void SetBodies(Node& n, std::vector<Graph> bodies) {
  n.attrs.Set(kBodies, ConstTensor(std::make_shared<Bodies>(std::move(bodies))));
}

bool IsDecided(const Graph& g, const Node& n) {
  if (!BodiesOf(n)) return false;
  if (IsIf(n)) return ConstantOf(g, n, 0) != nullptr;
  return (!IsGiven(n, 0) || ConstantOf(g, n, 0)) && (!IsGiven(n, 1) || ConstantOf(g, n, 1));
}

Status InlineDecided(Graph& g) {
  // What takes a node's place may be decided as well.
  for (NodeId id = 0; id < static_cast<NodeId>(g.nodes.size()); ++id) {
    if (g.nodes[id].dead || !IsDecided(g, g.nodes[id])) continue;
    if (g.nodes.size() > kMostNodes)
      return Errorf(Code::kNotImplemented,
                    "node \"%s\" (%s): the passes of loops in loops make more than %zu nodes, which is not "
                    "supported.",
                    g.nodes[id].name.c_str(), g.nodes[id].op->name.c_str(), kMostNodes);
    OPSNN_RETURN_IF_ERROR(Inliner(g, id).Run());
  }
  return g.Sort();
}

}  // namespace opsnn::graph
