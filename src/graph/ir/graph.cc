#include "graph/ir/graph.h"

#include <algorithm>
#include <utility>

namespace opsnn::graph {
namespace {

std::string Text(int64_t i) { return StrFormat("%lld", static_cast<long long>(i)); }
std::string Text(double d) { return StrFormat("%g", d); }
std::string Text(const std::string& s) { return "\"" + s + "\""; }
std::string Text(const ConstTensor& t) { return t ? "tensor" + ToString(t->dims()) : "none"; }
template <typename T>
std::string Text(const std::vector<T>& list) {
  std::string s = "[";
  for (const T& e : list) s += (s.size() > 1 ? "," : "") + Text(e);
  return s + "]";
}

// Drops dead nodes; the others keep their order, and those before the first dead one their place.
void Compact(std::vector<Value>& values, std::vector<Node>& nodes) {
  for (Value& v : values) v.producer = -1;
  size_t kept = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].dead) continue;
    if (kept != i) nodes[kept] = std::move(nodes[i]);
    for (ValueId o : nodes[kept].outputs)
      if (o != kNoValue) values[o].producer = static_cast<NodeId>(kept);
    ++kept;
  }
  nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(kept), nodes.end());
}

}  // namespace

ValueId Graph::AddValue(Value v) {
  values.push_back(std::move(v));
  return static_cast<ValueId>(values.size()) - 1;
}

ValueId Graph::AddConstant(std::string name, ConstTensor t) {
  Value v;
  v.name = std::move(name);
  v.desc.dtype = t->dtype();
  v.desc.dims = t->dims();
  v.desc.constant = std::move(t);
  return AddValue(std::move(v));
}

NodeId Graph::AddNode(Node n) {
  const NodeId id = static_cast<NodeId>(nodes.size());
  for (ValueId o : n.outputs)
    if (o != kNoValue) values[o].producer = id;
  nodes.push_back(std::move(n));
  return id;
}

bool Graph::IsOutput(ValueId v) const {
  return std::find(outputs.begin(), outputs.end(), v) != outputs.end();
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  for (Node& n : nodes) std::replace(n.inputs.begin(), n.inputs.end(), from, to);
  std::replace(outputs.begin(), outputs.end(), from, to);
}

// Does every live node come behind those that it reads from?
bool Graph::InOrder() const {
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].dead) continue;
    for (ValueId v : nodes[i].inputs) {
      const NodeId p = v == kNoValue ? -1 : values[v].producer;
      if (p >= static_cast<NodeId>(i) && !nodes[p].dead) return false;
    }
  }
  return true;
}

// Drops dead nodes and takes the others in this order.
void Graph::Take(const std::vector<NodeId>& order) {
  for (Value& v : values) v.producer = -1;
  std::vector<Node> taken;
  taken.reserve(order.size());
  for (NodeId id : order) {
    for (ValueId o : nodes[id].outputs)
      if (o != kNoValue) values[o].producer = static_cast<NodeId>(taken.size());
    taken.push_back(std::move(nodes[id]));
  }
  nodes = std::move(taken);
}

Status Graph::Sort() {
  const int n = static_cast<int>(nodes.size());
  if (InOrder()) {  // as it mostly is: a graph that is in order keeps its order
    Compact(values, nodes);
    return OkStatus();
  }
  std::vector<int> waiting(n, 0);  // inputs that some live node has yet to produce
  // By node, whoever waits for it, one entry per such input: those of node i from first[i] on.
  std::vector<int> first(n + 1, 0);
  std::vector<std::pair<NodeId, NodeId>> edges;
  int alive = 0;
  for (int i = 0; i < n; ++i) {
    if (nodes[i].dead) continue;
    ++alive;
    for (ValueId v : nodes[i].inputs) {
      const NodeId p = v == kNoValue ? -1 : values[v].producer;
      if (p < 0 || nodes[p].dead) continue;
      ++waiting[i];
      ++first[p + 1];
      edges.emplace_back(p, i);
    }
  }
  for (int i = 0; i < n; ++i) first[i + 1] += first[i];
  std::vector<NodeId> readers(edges.size());
  std::vector<int> filled = first;
  for (const auto& [p, reader] : edges) readers[filled[p]++] = reader;
  // Always the ready node of the lowest id: a graph that is in order keeps its order.
  std::vector<NodeId> ready, order;
  const auto later = [](NodeId a, NodeId b) { return a > b; };
  for (int i = 0; i < n; ++i)
    if (!nodes[i].dead && waiting[i] == 0) ready.push_back(i);
  std::make_heap(ready.begin(), ready.end(), later);
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const NodeId id = ready.back();
    ready.pop_back();
    order.push_back(id);
    for (int i = first[id]; i < first[id + 1]; ++i) {
      const NodeId r = readers[i];
      if (--waiting[r] > 0) continue;
      ready.push_back(r);
      std::push_heap(ready.begin(), ready.end(), later);
    }
  }
  if (static_cast<int>(order.size()) != alive) {
    for (int i = 0; i < n; ++i)
      if (!nodes[i].dead && waiting[i] > 0)
        return InvalidArgument("graph %s: node %s (%s) is part of a cycle.", name.c_str(),
                               nodes[i].name.c_str(), nodes[i].op->name.c_str());
  }
  Take(order);
  return OkStatus();
}

void Graph::DropUnusedValues() {
  std::vector<ValueId> to(values.size(), kNoValue);
  const auto keep = [&](ValueId v) {
    if (v != kNoValue) to[static_cast<size_t>(v)] = 0;
  };
  for (const Node& n : nodes) {
    for (ValueId v : n.inputs) keep(v);
    for (ValueId v : n.outputs) keep(v);
  }
  for (ValueId v : inputs) keep(v);
  for (ValueId v : outputs) keep(v);
  for (const Default& d : defaults) keep(d.value);
  ValueId next = 0;
  for (size_t v = 0; v < values.size(); ++v) {
    if (to[v] == kNoValue) continue;
    if (static_cast<size_t>(next) != v) values[static_cast<size_t>(next)] = std::move(values[v]);
    to[v] = next++;
  }
  values.resize(static_cast<size_t>(next));
  values.shrink_to_fit();
  const auto renumber = [&](std::vector<ValueId>& list) {
    for (ValueId& v : list)
      if (v != kNoValue) v = to[static_cast<size_t>(v)];
  };
  for (Node& n : nodes) renumber(n.inputs), renumber(n.outputs);
  renumber(inputs);
  renumber(outputs);
  for (Default& d : defaults)
    if (d.value != kNoValue) d.value = to[static_cast<size_t>(d.value)];
}

int Graph::RemoveUnused() {
  std::vector<int> uses(values.size(), 0);
  for (const Node& n : nodes)
    if (!n.dead)
      for (ValueId v : n.inputs)
        if (v != kNoValue) ++uses[v];
  for (ValueId v : outputs) ++uses[v];
  std::vector<NodeId> work;
  const auto unused = [&](const Node& n) {
    return !n.dead && std::all_of(n.outputs.begin(), n.outputs.end(),
                                  [&](ValueId o) { return o == kNoValue || uses[o] == 0; });
  };
  for (size_t i = 0; i < nodes.size(); ++i)
    if (unused(nodes[i])) work.push_back(static_cast<NodeId>(i));
  int removed = 0;
  while (!work.empty()) {
    Node& n = nodes[work.back()];
    work.pop_back();
    if (n.dead) continue;
    n.dead = true;
    ++removed;
    for (ValueId v : n.inputs) {
      if (v == kNoValue || --uses[v] > 0) continue;
      const NodeId p = values[v].producer;
      if (p >= 0 && unused(nodes[p])) work.push_back(p);
    }
  }
  return removed;
}

std::string Graph::ToString() const {
  std::string s = "graph(\"" + name + "\")\n";
  const auto ref = [&](ValueId v) { return v == kNoValue ? std::string("-") : "%" + values[v].name; };
  const auto type = [&](ValueId v) {
    if (v == kNoValue) return std::string("-");
    const op::TensorDesc& d = values[v].desc;
    std::string t = std::string(Name(d.dtype)) + (d.known_rank ? opsnn::ToString(d.dims) : "[*]");
    if (d.layout != Layout()) t += " " + opsnn::ToString(d.layout);
    if (!d.strides.empty()) t += " strides " + opsnn::ToString(d.strides);
    if (values[v].offset) t += StrFormat(" at %lld", static_cast<long long>(values[v].offset));
    return t;
  };
  for (ValueId v : inputs) s += "  input " + ref(v) + ": " + type(v) + "\n";
  for (const Node& n : nodes) {
    if (n.dead) continue;
    s += "  ";
    for (size_t i = 0; i < n.outputs.size(); ++i)
      s += (i ? ", " : "") + ref(n.outputs[i]) + ": " + type(n.outputs[i]);
    s += " = " + n.op->name + "(";
    for (size_t i = 0; i < n.inputs.size(); ++i) s += (i ? ", " : "") + ref(n.inputs[i]);
    s += ")";
    for (const auto& [key, value] : n.attrs.all())
      s += " " + key + "=" + std::visit([](const auto& x) { return Text(x); }, value);
    if (n.tail) s += " tail{" + n.tail->program.ToString() + "}";
    s += "  # " + n.name + "\n";
  }
  for (ValueId v : outputs) s += "  output " + ref(v) + ": " + type(v) + "\n";
  return s;
}

}  // namespace opsnn::graph
