#include "graph/fusion/storing.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "graph/ir/known_ops.h"
#include "op/advice.h"

namespace opsnn::graph {
namespace {

bool IsF32OrHalf(DType t) { return t == DType::kF32 || IsHalf(t); }

op::BoundProgram Bind(const Graph& g, const Node& n) {
  op::BoundProgram bound;
  const DType x = g.values[n.inputs[0]].desc.dtype;
  if (n.op == Known().Cast) {
    ProgramBuilder b;
    b.Output(b.Unary(StageOp::kCopy, b.Input(ComputeTypeOf(x))));
    bound.program = std::move(b).Build();
    bound.operands = {0};
    return bound;
  }
  const bool has_zero = n.inputs.size() > 2 && n.inputs[2] != kNoValue;
  bound.program = op::AdviceOf(*n.op).scaling(x, g.values[n.outputs[0]].desc.dtype, has_zero);
  bound.operands = has_zero ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1};
  return bound;
}

}  // namespace

bool StoresIntegers(const Graph& g, const Node& n) {
  if (n.dead || n.tail || (n.op != Known().QuantizeLinear && n.op != Known().Cast)) return false;
  if (n.outputs.size() != 1 || n.outputs[0] == kNoValue || n.inputs.empty() || n.inputs[0] == kNoValue)
    return false;
  const op::TensorDesc &x = g.values[n.inputs[0]].desc, &y = g.values[n.outputs[0]].desc;
  if (!IsF32OrHalf(x.dtype) || IsFloat(y.dtype) || !IsKnown(y.dims) || y.dims.rank() == 0) return false;
  return n.op == Known().Cast || IsF32OrHalf(g.values[n.inputs[1]].desc.dtype);
}

StoringNodes::StoringNodes(Rewriter& r) : r_(r) {
  const NodeId count = r.num_nodes();
  nodes_.resize(static_cast<size_t>(count));
  for (NodeId n = 0; n < count; ++n) {
    if (!StoresIntegers(r.graph(), r.node(n))) continue;
    Storing s{r.node(n), Bind(r.graph(), r.node(n))};
    for (size_t i = 1; i < s.node.inputs.size(); ++i) s.node.inputs[i] = Broadcast(s.node, s.node.inputs[i]);
    nodes_[static_cast<size_t>(n)] = std::move(s);
  }
}

const StoringNodes::Storing* StoringNodes::Find(NodeId n) const {
  const auto i = static_cast<size_t>(n);
  if (i >= nodes_.size() || !nodes_[i] || r_.node(n).dead) return nullptr;
  return &*nodes_[i];
}

ValueId StoringNodes::Broadcast(const Node& n, ValueId v) {
  if (v == kNoValue) return v;
  const Value& given = r_.value(v);
  if (NumElements(given.desc.dims) == 1) return v;
  const int rank = r_.desc(n.outputs[0]).dims.rank();
  const int axis = op::AdviceOf(*n.op).scaling_axis(n.attrs, rank);
  if (axis == rank - 1) return v;
  Dims dims = Dims::Filled(rank - axis, 1);
  dims[0] = given.desc.dims[0];
  const std::string name = given.name + ".rows";
  if (given.IsConstant() && given.desc.constant) {
    auto t = std::make_shared<HostTensor>(given.desc.dtype, dims);
    if (!t->ok()) return v;
    std::memcpy(t->data(), given.desc.constant->data(), t->bytes());
    return r_.AddConstant(name, std::move(t));
  }
  Value rows;
  rows.name = name;
  rows.desc.dtype = given.desc.dtype;
  rows.desc.dims = dims;
  std::vector<int64_t> axes;
  for (int i = 1; i < dims.rank(); ++i) axes.push_back(i);
  Node view;
  view.name = name;
  view.op = Known().Unsqueeze;
  view.num_op_inputs = 2;
  view.inputs = {v, r_.AddConstant(name + ".axes",
                                   HostTensor::From<int64_t>({static_cast<int64_t>(axes.size())}, axes))};
  const ValueId made = r_.AddValue(std::move(rows));
  view.outputs = {made};
  waiting_.emplace_back(made, std::move(view));
  return made;
}

void StoringNodes::Use(ValueId v) {
  const auto it = std::find_if(waiting_.begin(), waiting_.end(), [v](const auto& w) { return w.first == v; });
  if (it == waiting_.end()) return;
  r_.AddNode(std::move(it->second));
  waiting_.erase(it);
}

}  // namespace opsnn::graph
