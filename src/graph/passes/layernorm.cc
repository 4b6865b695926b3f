#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

struct Match {
  ValueId x = kNoValue;
  int64_t axis = 0;  // first normalised axis, counted from the end: -1, -2, ...
  double epsilon = 0;
  std::vector<NodeId> nodes;
};

// ReduceMean with keepdims over the last axes: how many, or 0.
int64_t TrailingMean(const Rewriter& r, const Graph& g, NodeId n) {
  if (n < 0 || g.nodes[n].attrs.Int("keepdims", 1) != 1 || g.nodes[n].inputs.size() < 2) return 0;
  const op::TensorDesc& x = r.desc(g.nodes[n].inputs[0]);
  if (g.nodes[n].inputs[1] == kNoValue) return 0;
  const ConstTensor axes = r.desc(g.nodes[n].inputs[1]).constant;
  if (!axes || axes->size() == 0) return 0;
  std::vector<int64_t> list = ToInts(*axes);
  for (int64_t& a : list) {
    if (a < 0) continue;
    if (!x.known_rank) return 0;
    a -= x.dims.rank();
  }
  std::sort(list.begin(), list.end());
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] != static_cast<int64_t>(i) - static_cast<int64_t>(list.size())) return 0;
  return static_cast<int64_t>(list.size());
}

// v = d * d or d ^ 2.
bool IsSquare(const Rewriter& r, const Graph& g, ValueId v, ValueId d, std::vector<NodeId>* used) {
  const NodeId p = r.Producer(v);
  if (p < 0) return false;
  used->push_back(p);
  if (r.Is(p, Known().Pow))
    return g.nodes[p].inputs[0] == d && r.ScalarBeside(g.nodes[p].inputs[1], d) == 2.0;
  return r.Is(p, Known().Mul) && g.nodes[p].inputs[0] == d && g.nodes[p].inputs[1] == d;
}

// div = d / sqrt(mean(d^2) + eps) with d = x - mean(x). Some exporters subtract twice: two equal Sub nodes
// are one after the cse pass.
bool MatchNormalised(const Rewriter& r, const Graph& g, NodeId div, Match* m) {
  const ValueId d = g.nodes[div].inputs[0];
  const NodeId sub = r.Producer(d, Known().Sub), root = r.Producer(g.nodes[div].inputs[1], Known().Sqrt);
  if (sub < 0 || root < 0) return false;
  const NodeId add = r.Producer(g.nodes[root].inputs[0], Known().Add);
  const auto eps = add < 0 ? std::nullopt : r.SplitScalar(add);
  if (!eps) return false;
  const NodeId var = r.Producer(eps->x, Known().ReduceMean),
               mean = r.Producer(g.nodes[sub].inputs[1], Known().ReduceMean);
  const int64_t axes = TrailingMean(r, g, var);
  if (axes == 0 || axes != TrailingMean(r, g, mean)) return false;
  m->x = g.nodes[sub].inputs[0];
  m->axis = -axes;
  m->epsilon = eps->c;
  m->nodes = {div, sub, root, add, var, mean};
  return g.nodes[mean].inputs[0] == m->x && IsSquare(r, g, g.nodes[var].inputs[0], d, &m->nodes);
}

// The constant operand of the one user of v, if that is `op` and the constant has the shape of the normalised
// axes.
ValueId FollowedBy(const Rewriter& r, const Graph& g, ValueId v, const op::OpDef* op, const Match& m,
                   NodeId* user) {
  if (!r.SingleUse(v)) return kNoValue;
  *user = r.Users(v)[0];
  if (!r.Is(*user, op)) return kNoValue;
  const ValueId other = r.Other(*user, v);
  if (other == kNoValue || other == v || !g.values[other].IsConstant()) return kNoValue;
  const op::TensorDesc& d = r.desc(other);
  if (d.dims.rank() != -m.axis || d.dtype != r.desc(m.x).dtype) return kNoValue;
  const op::TensorDesc& x = r.desc(m.x);
  for (int i = 0; i < d.dims.rank(); ++i) {
    // The size must be that of x, or, where x's is not known yet, one that cannot be a broadcast.
    const int64_t size = x.known_rank ? x.dims[x.dims.rank() - d.dims.rank() + i] : kUnknownDim;
    if (size == kUnknownDim ? d.dims[i] == 1 : d.dims[i] != size) return kNoValue;
  }
  return other;
}

}  // namespace

Status LayerNorm(Graph& g, PassContext& c) {
  const op::OpDef* op = Known().LayerNormalization;
  if (!op) return OkStatus();
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  for (NodeId div = 0; div < count; ++div) {
    Match m;
    if (!r.Is(div, Known().Div) || !IsFloat(r.desc(g.nodes[div].inputs[0]).dtype) ||
        !MatchNormalised(r, g, div, &m))
      continue;
    ++c.matches, ++c.effects;
    std::vector<ValueId> inputs = {m.x};
    NodeId last = div, next = -1;
    const ValueId scale = FollowedBy(r, g, g.nodes[last].outputs[0], Known().Mul, m, &next);
    if (scale != kNoValue) {
      inputs.push_back(scale);
      m.nodes.push_back(last = next);
    }
    const ValueId bias = FollowedBy(r, g, g.nodes[last].outputs[0], Known().Add, m, &next);
    if (bias != kNoValue) {
      if (scale == kNoValue) inputs.push_back(kNoValue);
      inputs.push_back(bias);
      m.nodes.push_back(last = next);
    }
    op::Attrs attrs;
    attrs.Set("axis", m.axis);
    attrs.Set("epsilon", m.epsilon);
    r.Replace(last, op, std::move(inputs), std::move(attrs), m.nodes);
  }
  return OkStatus();
}

}  // namespace opsnn::graph
