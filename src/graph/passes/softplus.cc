// log(1 + exp(x)) becomes Softplus, which does not overflow; x * tanh(Softplus(x)) becomes Mish.
#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

void MatchSoftplus(Rewriter& r, NodeId log, PassContext& c) {
  const Graph& g = r.graph();
  const NodeId add = r.Producer(g.nodes[log].inputs[0], Known().Add);
  const auto one = add < 0 ? std::nullopt : r.SplitScalar(add);
  if (!one || one->c != 1.0) return;
  const NodeId exp = r.Producer(one->x, Known().Exp);
  if (exp < 0 || !IsFloat(r.desc(one->x).dtype)) return;
  ++c.matches, ++c.effects;
  r.Replace(log, Known().Softplus, {g.nodes[exp].inputs[0]}, {}, {exp, add, log});
}

void MatchMish(Rewriter& r, NodeId mul, PassContext& c) {
  const Graph& g = r.graph();
  if (g.nodes[mul].inputs.size() != 2) return;
  for (int i : {0, 1}) {
    const ValueId x = g.nodes[mul].inputs[i];
    const NodeId tanh = r.Producer(g.nodes[mul].inputs[1 - i], Known().Tanh);
    const NodeId plus = tanh < 0 ? -1 : r.Producer(g.nodes[tanh].inputs[0], Known().Softplus);
    if (plus < 0 || g.nodes[plus].inputs[0] != x) continue;
    ++c.matches, ++c.effects;
    r.Replace(mul, Known().Mish, {x}, {}, {plus, tanh, mul});
    return;
  }
}

}  // namespace

Status Softplus(Graph& g, PassContext& c) {
  Rewriter r(g);
  if (Known().Softplus)
    for (NodeId n = 0, count = r.num_nodes(); n < count; ++n)
      if (r.Is(n, Known().Log)) MatchSoftplus(r, n, c);
  if (Known().Mish)
    for (NodeId n = 0, count = r.num_nodes(); n < count; ++n)
      if (r.Is(n, Known().Mul)) MatchMish(r, n, c);
  return OkStatus();
}

}  // namespace opsnn::graph
