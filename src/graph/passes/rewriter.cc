#include "graph/passes/rewriter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace opsnn::graph {

Rewriter::Rewriter(Graph& g) : g_(g), users_(g.values.size()), is_output_(g.values.size(), false) {
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (g.nodes[i].dead) continue;
    for (ValueId v : g.nodes[i].inputs) {
      // A node that reads a value twice counts once.
      if (v == kNoValue) continue;
      NodeList& list = users_[v];
      if (list.empty() || list.back() != static_cast<NodeId>(i)) list.Add(static_cast<NodeId>(i));
    }
  }
  for (ValueId v : g.outputs) is_output_[v] = true;
}

NodeId Rewriter::Producer(ValueId v) const {
  if (v == kNoValue) return -1;
  const NodeId p = g_.values[v].producer;
  return p >= 0 && !g_.nodes[p].dead ? p : -1;
}

NodeId Rewriter::Producer(ValueId v, const op::OpDef* op) const {
  const NodeId p = Producer(v);
  return p >= 0 && Is(p, op) ? p : -1;
}

std::optional<double> Rewriter::Scalar(ValueId v) const {
  if (v == kNoValue || !g_.values[v].IsConstant()) return std::nullopt;
  const ConstTensor t = g_.values[v].desc.constant;
  if (!t || t->size() != 1) return std::nullopt;
  return ToDoubles(*t)[0];
}

std::optional<double> Rewriter::ScalarBeside(ValueId v, ValueId x) const {
  const auto c = Scalar(v);
  if (!c || x == kNoValue) return std::nullopt;
  const int rank = desc(v).dims.rank();
  const op::TensorDesc& d = desc(x);
  return rank == 0 || (d.known_rank && rank <= d.dims.rank()) ? c : std::nullopt;
}

ValueId Rewriter::Other(NodeId n, ValueId v) const {
  const auto& in = g_.nodes[n].inputs;
  if (in.size() != 2) return kNoValue;
  return in[0] == v ? in[1] : in[1] == v ? in[0] : kNoValue;
}

std::optional<Rewriter::WithScalar> Rewriter::SplitScalar(NodeId n) const {
  const auto& in = g_.nodes[n].inputs;
  if (in.size() != 2) return std::nullopt;
  for (int i : {1, 0})
    if (const auto c = ScalarBeside(in[i], in[1 - i])) return WithScalar{in[1 - i], *c};
  return std::nullopt;
}

void Rewriter::AddUser(ValueId v, NodeId n) {
  if (v == kNoValue) return;
  if (!users_[v].Has(n)) users_[v].Add(n);
}

void Rewriter::RemoveUser(ValueId v, NodeId n) {
  if (v == kNoValue) return;
  users_[v].Remove(n);
}

ValueId Rewriter::AddValue(Value v) {
  users_.emplace_back();
  is_output_.push_back(false);
  return g_.AddValue(std::move(v));
}

ValueId Rewriter::AddConstant(const std::string& name, ConstTensor t) {
  users_.emplace_back();
  is_output_.push_back(false);
  return g_.AddConstant(name, std::move(t));
}

NodeId Rewriter::AddNode(Node n) {
  const NodeId id = g_.AddNode(std::move(n));
  for (ValueId v : g_.nodes[id].inputs) AddUser(v, id);
  return id;
}

ValueId Rewriter::AddUnsized(ValueId like, const char* suffix, DType dtype) {
  Value v;
  v.name = g_.values[like].name + suffix;
  v.desc.dtype = dtype;
  v.desc.known_rank = false;
  return AddValue(std::move(v));
}

NodeId Rewriter::AddNode(const op::OpDef* op, std::string name, std::vector<ValueId> inputs,
                         std::vector<ValueId> outputs) {
  Node n;
  n.name = std::move(name);
  n.op = op;
  n.num_op_inputs = static_cast<int>(inputs.size());
  n.inputs = std::move(inputs);
  n.outputs = std::move(outputs);
  return AddNode(std::move(n));
}

NodeId Rewriter::ReplaceBoth(NodeId p, NodeId n, Node made) {
  made.name = g_.nodes[n].name;
  made.outputs = g_.nodes[n].outputs;
  for (const NodeId id : {p, n})
    made.origins.insert(made.origins.end(), g_.nodes[id].origins.begin(), g_.nodes[id].origins.end());
  Kill(n);
  Kill(p);
  return AddNode(std::move(made));
}

void Rewriter::SetInput(NodeId n, size_t i, ValueId v) {
  auto& in = g_.nodes[n].inputs;
  const ValueId old = in[i];
  in[i] = v;
  if (std::find(in.begin(), in.end(), old) == in.end()) RemoveUser(old, n);
  AddUser(v, n);
}

void Rewriter::ReplaceUses(ValueId from, ValueId to) {
  const NodeList readers = std::exchange(users_[from], {});
  for (NodeId n : readers) {
    std::replace(g_.nodes[n].inputs.begin(), g_.nodes[n].inputs.end(), from, to);
    AddUser(to, n);
  }
  if (!is_output_[from]) return;
  std::replace(g_.outputs.begin(), g_.outputs.end(), from, to);
  is_output_[from] = false;
  is_output_[to] = true;
}

void Rewriter::Kill(NodeId n) {
  g_.nodes[n].dead = true;
  for (ValueId v : g_.nodes[n].inputs) RemoveUser(v, n);
}

NodeId Rewriter::Replace(NodeId n, const op::OpDef* op, std::vector<ValueId> inputs, op::Attrs attrs,
                         const std::vector<NodeId>& absorbed) {
  Node made;
  made.name = g_.nodes[n].name;
  made.op = op;
  made.attrs = std::move(attrs);
  made.num_op_inputs = static_cast<int>(inputs.size());
  made.inputs = std::move(inputs);
  made.outputs = g_.nodes[n].outputs;
  for (NodeId a : absorbed)
    made.origins.insert(made.origins.end(), g_.nodes[a].origins.begin(), g_.nodes[a].origins.end());
  std::sort(made.origins.begin(), made.origins.end());
  made.origins.erase(std::unique(made.origins.begin(), made.origins.end()), made.origins.end());
  Kill(n);
  const NodeId id = AddNode(std::move(made));
  // Later nodes of the pattern first: killing one may free the one before.
  std::vector<NodeId> rest = absorbed;
  std::sort(rest.rbegin(), rest.rend());
  for (NodeId a : rest) {
    if (g_.nodes[a].dead) continue;
    const auto& out = g_.nodes[a].outputs;
    if (std::all_of(out.begin(), out.end(),
                    [&](ValueId v) { return v == kNoValue || (users_[v].empty() && !is_output_[v]); }))
      Kill(a);
  }
  return id;
}

void Rewriter::Absorb(NodeId into, NodeId n) {
  const ValueId out = g_.nodes[n].outputs[0];
  Kill(n);
  Node& node = g_.nodes[into];
  g_.values[node.outputs[0]].producer = -1;
  node.outputs[0] = out;
  g_.values[out].producer = into;
  node.origins.insert(node.origins.end(), g_.nodes[n].origins.begin(), g_.nodes[n].origins.end());
}

std::vector<int64_t> TransposePerm(const Rewriter& r, const Node& n) {
  std::vector<int64_t> perm = n.attrs.Ints("perm");
  if (perm.empty())
    for (int64_t i = r.desc(n.inputs[0]).dims.rank() - 1; i >= 0; --i) perm.push_back(i);
  return perm;
}

bool IsBias(const op::TensorDesc& d, int64_t channels) {
  return d.constant != nullptr && d.dtype == DType::kF32 && d.dims.rank() == 1 && d.dims[0] == channels;
}

bool Near(double got, double want) { return std::abs(got - want) <= 1e-6 * std::max(1.0, std::abs(want)); }

}  // namespace opsnn::graph
