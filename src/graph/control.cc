#include "graph/control.h"

#include <algorithm>

#include "graph/infer.h"
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
bool IsScan(const Node& n) { return n.op->name == "Scan"; }

ConstTensor ConstantOf(const Graph& g, const Node& n, size_t i) {
  return i < n.inputs.size() && n.inputs[i] != kNoValue ? g.values[n.inputs[i]].desc.constant : nullptr;
}
ConstTensor True() {
  auto t = std::make_shared<HostTensor>(DType::kBool, Dims{});
  WriteElement(t->data(), DType::kBool, 1);
  return t;
}
bool IsGiven(const Node& n, size_t i) { return i < n.inputs.size() && n.inputs[i] != kNoValue; }

// Element i of a list of a Scan's attributes, 0 where there is none.
int64_t Entry(const Node& n, const char* attr, size_t i) {
  const std::vector<int64_t> list = n.attrs.Ints(attr);
  return i < list.size() ? list[i] : 0;
}

// What took the place of loops must not grow beyond all bounds.
Status CheckSize(const Graph& g, const Node& n) {
  if (g.nodes.size() <= kMostNodes) return OkStatus();
  return Errorf(Code::kNotImplemented,
                "node \"%s\" (%s): the passes of loops in loops make more than %zu nodes, which is not "
                "supported.",
                n.name.c_str(), n.op->name.c_str(), kMostNodes);
}

class Inliner {
 public:
  Inliner(Graph& g, NodeId id) : g_(g), node_(std::move(g.nodes[id])) {
    g_.nodes[id].dead = true;
    // Values are known by their names, and those of nodes may be given twice.
    for (const ValueId v : node_.outputs)
      if (v != kNoValue && place_.empty()) place_ = g_.values[v].name;
    place_length_ = place_.size();
    if (!IsIf(node_)) SetPass(node_.attrs.Int(kPasses, 0));
  }

  Status Run() { return IsIf(node_) ? Branch() : IsScan(node_) ? Rows() : Passes(); }

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
    if (done >= kMostPasses) return TooManyPasses();
    const auto at = node_.inputs.begin() + kBodyOperands;
    std::vector<ValueId> operands = {Constant("pass", HostTensor::From<int64_t>({}, {done})),
                                     Constant("go", True())};
    operands.insert(operands.end(), at, at + static_cast<ptrdiff_t>(states + captured));
    const std::vector<ValueId> results = Copy(body, operands);
    Node rest = node_;
    rest.attrs.Set(kPasses, done + 1);
    rest.inputs[1] = Origin(results[0]);  // mostly the condition of this pass, handed on
    for (size_t i = 0; i < states; ++i) rest.inputs[kBodyOperands + i] = results[1 + i];
    for (size_t i = 1 + states; i < results.size(); ++i) rest.inputs.push_back(AsRow(results[i], i, 0));
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
      const size_t scans = node_.outputs.size() - states, first = kBodyOperands + states + captured;
      std::vector<ValueId> rows;
      for (int64_t pass = 0; pass < done; ++pass)
        rows.push_back(node_.inputs[first + static_cast<size_t>(pass) * scans + i - states]);
      if (rows.empty()) {
        const auto at = node_.inputs.begin() + kBodyOperands;
        std::vector<op::TensorDesc> operands(kBodyOperands);
        operands[0].dtype = DType::kS64, operands[1].dtype = DType::kBool;
        for (size_t k = 0; k < states + captured; ++k)
          operands.push_back(g_.values[at[static_cast<ptrdiff_t>(k)]].desc);
        OPSNN_RETURN_IF_ERROR(NoRows(i, 0, RowOf(body, operands, 1 + i)));
      } else {
        Together(i, std::move(rows), 0);
      }
    }
    return OkStatus();
  }

  // All passes of a Scan: how many there are follows from shapes.
  Status Rows() {
    const Graph& body = BodiesOf(node_)->front();
    const auto states = static_cast<size_t>(node_.attrs.Int("states", 0));
    const auto scans = static_cast<size_t>(node_.attrs.Int("num_scan_inputs", 0));
    OPSNN_ASSIGN_OR_RETURN(const int64_t passes, ScanLength(states, scans));
    if (passes > kMostPasses) return TooManyPasses();
    const auto at = node_.inputs.begin();
    std::vector<ValueId> state(at, at + static_cast<ptrdiff_t>(states));
    std::vector<std::vector<ValueId>> rows(node_.outputs.size() - states);
    for (int64_t pass = 0; pass < passes; ++pass) {
      OPSNN_RETURN_IF_ERROR(CheckSize(g_, node_));
      SetPass(pass);
      std::vector<ValueId> operands = state;
      for (size_t i = 0; i < scans; ++i) operands.push_back(Slice(node_.inputs[states + i], i, pass));
      operands.insert(operands.end(), at + static_cast<ptrdiff_t>(states + scans), node_.inputs.end());
      const std::vector<ValueId> results = Copy(body, operands);
      state.assign(results.begin(), results.begin() + static_cast<ptrdiff_t>(states));
      for (size_t i = 0; i < rows.size(); ++i)
        if (node_.outputs[states + i] != kNoValue)
          rows[i].push_back(AsRow(results[states + i], i, Entry(node_, "scan_output_axes", i)));
    }
    for (size_t i = 0; i < states; ++i) Name(node_.outputs[i], state[i]);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (node_.outputs[states + i] == kNoValue) continue;
      const int64_t axis = Entry(node_, "scan_output_axes", i);
      if (passes == 0) {
        OPSNN_RETURN_IF_ERROR(NoRows(states + i, axis, RowOf(body, SliceDescs(states, scans), states + i)));
        continue;
      }
      if (Entry(node_, "scan_output_directions", i) != 0) std::reverse(rows[i].begin(), rows[i].end());
      Together(states + i, std::move(rows[i]), axis);
    }
    return OkStatus();
  }

  // What the body of a Scan is given, by its inputs.
  std::vector<op::TensorDesc> SliceDescs(size_t states, size_t scans) const {
    std::vector<op::TensorDesc> descs;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      op::TensorDesc d = g_.values[node_.inputs[i]].desc;
      if (i >= states && i < states + scans) {
        const int64_t axis = Entry(node_, "scan_input_axes", i - states);
        Dims rest;
        for (int k = 0; k < d.dims.rank(); ++k)
          if (k != (axis < 0 ? axis + d.dims.rank() : axis)) rest.push_back(d.dims[k]);
        d.dims = rest;
        d.constant = nullptr;
      }
      descs.push_back(std::move(d));
    }
    return descs;
  }

  // Output i of a pass that never runs.
  static op::TensorDesc RowOf(Graph body, const std::vector<op::TensorDesc>& operands, size_t i) {
    for (size_t k = 0; k < operands.size(); ++k) body.values[body.inputs[k]].desc = operands[k];
    InferOptions infer;
    infer.concrete = infer.fold = false;
    (void)InferGraph(body, infer);  // as far as it goes
    return body.values[body.outputs[i]].desc;
  }

  // The length that the scanned axes have in common.
  Result<int64_t> ScanLength(size_t states, size_t scans) const {
    int64_t length = 0;
    for (size_t i = 0; i < scans; ++i) {
      const Dims& d = g_.values[node_.inputs[states + i]].desc.dims;
      const int64_t given = Entry(node_, "scan_input_axes", i), rank = d.rank();
      if (given < -rank || given >= rank)
        return InvalidArgument("node \"%s\" (Scan): scan_input_axes holds %lld for an operand of rank %lld.",
                               node_.name.c_str(), static_cast<long long>(given),
                               static_cast<long long>(rank));
      const int64_t size = d[static_cast<int>(given < 0 ? given + rank : given)];
      if (i > 0 && size != length)
        return InvalidArgument(
            "node \"%s\" (Scan): scanned operand %zu has %lld rows and the first %lld; allowed: as many.",
            node_.name.c_str(), i, static_cast<long long>(size), static_cast<long long>(length));
      length = size;
    }
    return length;
  }

  // What pass `pass` of a Scan gets of its scanned operand i.
  ValueId Slice(ValueId all, size_t i, int64_t pass) {
    const bool from_end = Entry(node_, "scan_input_directions", i) != 0;
    Node n;
    n.attrs.Set("axis", Entry(node_, "scan_input_axes", i));
    const ValueId at = Constant("at", HostTensor::From<int64_t>({}, {from_end ? -1 - pass : pass}));
    return Add(std::move(n), Known().Gather, "slice_" + std::to_string(i), {all, at});
  }

  // Output i of the node where no pass runs: the axis of the passes is empty.
  Status NoRows(size_t i, int64_t axis, const op::TensorDesc& one) {
    const int64_t rank = one.dims.rank() + 1, at = axis < 0 ? axis + rank : axis;
    if (at < 0 || at >= rank)
      return InvalidArgument("node \"%s\" (%s): scan_output_axes holds %lld for a result of rank %lld.",
                             node_.name.c_str(), node_.op->name.c_str(), static_cast<long long>(axis),
                             static_cast<long long>(rank));
    Dims dims;
    for (int k = 0; k < rank; ++k)
      dims.push_back(k == at ? 0 : std::max<int64_t>(one.dims[k < at ? k : k - 1], 0));
    Name(node_.outputs[i], Constant("none", std::make_shared<HostTensor>(one.dtype, dims)));
    return OkStatus();
  }

  // Output i of the node: the rows one behind the other along an axis of their own.
  void Together(size_t i, std::vector<ValueId> rows, int64_t axis) {
    Node all;
    all.name = node_.name + "/scan_" + std::to_string(i);
    all.op = Known().Concat;
    all.attrs.Set("axis", axis);
    all.inputs = std::move(rows);
    all.num_op_inputs = static_cast<int>(all.inputs.size());
    all.outputs = {node_.outputs[i]};
    g_.AddNode(std::move(all));
  }

  Status TooManyPasses() const {
    return Errorf(Code::kNotImplemented, "node \"%s\" (%s): more than %lld passes are not supported.",
                  node_.name.c_str(), node_.op->name.c_str(), static_cast<long long>(kMostPasses));
  }

  // The names of what pass `pass` adds begin with it.
  void SetPass(int64_t pass) {
    place_.resize(place_length_);
    place_ += "/" + std::to_string(pass);
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
  ValueId AsRow(ValueId v, size_t i, int64_t axis) {
    return Add({}, Known().Unsqueeze, "row_" + std::to_string(i),
               {v, Constant("axes", HostTensor::From<int64_t>({1}, {axis}))});
  }

  // A node of this operator on these operands; its result, of the first one's type.
  ValueId Add(Node n, const op::OpDef* op, const std::string& what, std::vector<ValueId> inputs) {
    Value result;
    result.name = n.name = place_ + "/" + what;
    result.desc.dtype = g_.values[inputs[0]].desc.dtype;
    result.desc.known_rank = false;
    n.op = op;
    n.num_op_inputs = static_cast<int>(inputs.size());
    n.inputs = std::move(inputs);
    n.outputs = {g_.AddValue(std::move(result))};
    const ValueId out = n.outputs[0];
    g_.AddNode(std::move(n));
    return out;
  }

  static constexpr size_t kBodyOperands = 2;  // of a loop: its number and the condition
  Graph& g_;
  const Node node_;
  std::string place_;        // in front of the names of the values that are added
  size_t place_length_ = 0;  // without the number of the pass
};

}  // namespace

const std::vector<Graph>* BodiesOf(const Node& n) {
  if (n.op->op_class != op::OpClass::kControl || !n.attrs.Has(kBodies)) return nullptr;
  return &static_cast<const Bodies*>(n.attrs.get().Tensor(kBodies).get())->graphs;
}

void SetBodies(Node& n, std::vector<Graph> bodies) {
  n.attrs.Set(kBodies, ConstTensor(std::make_shared<Bodies>(std::move(bodies))));
}

namespace {

// Of a Scan: do shapes tell how many passes there are, or that they contradict each other?
bool LengthsKnown(const Graph& g, const Node& n) {
  const auto states = static_cast<size_t>(n.attrs.Int("states", 0));
  const auto scans = static_cast<size_t>(n.attrs.Int("num_scan_inputs", 0));
  for (size_t i = 0; i < scans; ++i) {
    const op::TensorDesc& d = g.values[n.inputs[states + i]].desc;
    const int64_t given = Entry(n, "scan_input_axes", i), rank = d.dims.rank();
    if (!d.known_rank) return false;
    if (given >= -rank && given < rank && d.dims[static_cast<int>(given < 0 ? given + rank : given)] < 0)
      return false;
  }
  return true;
}

}  // namespace

bool IsDecided(const Graph& g, const Node& n) {
  if (!BodiesOf(n)) return false;
  if (IsIf(n)) return ConstantOf(g, n, 0) != nullptr;
  if (IsScan(n)) return LengthsKnown(g, n);
  return (!IsGiven(n, 0) || ConstantOf(g, n, 0)) && (!IsGiven(n, 1) || ConstantOf(g, n, 1));
}

Status InlineDecided(Graph& g) {
  // What takes a node's place may be decided as well.
  for (NodeId id = 0; id < static_cast<NodeId>(g.nodes.size()); ++id) {
    if (g.nodes[id].dead || !IsDecided(g, g.nodes[id])) continue;
    OPSNN_RETURN_IF_ERROR(CheckSize(g, g.nodes[id]));
    OPSNN_RETURN_IF_ERROR(Inliner(g, id).Run());
  }
  return g.Sort();
}

}  // namespace opsnn::graph
