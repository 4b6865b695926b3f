#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

constexpr double kSixth = 1.0 / 6.0;

// v = clip(x + 3, 0, 6): returns x, and adds the nodes to `used`.
ValueId MatchClip6(const Rewriter& r, const Graph& g, ValueId v, std::vector<NodeId>* used) {
  const NodeId clip = r.Producer(v, Known().Clip);
  if (clip < 0 || g.nodes[clip].inputs.size() != 3) return kNoValue;
  const auto& in = g.nodes[clip].inputs;
  const auto lo = r.ScalarBeside(in[1], in[0]), hi = r.ScalarBeside(in[2], in[0]);
  if (lo != 0.0 || hi != 6.0) return kNoValue;
  const NodeId add = r.Producer(g.nodes[clip].inputs[0], Known().Add);
  if (add < 0) return kNoValue;
  const auto split = r.SplitScalar(add);
  if (!split || split->c != 3.0) return kNoValue;
  used->insert(used->end(), {add, clip});
  return split->x;
}

// n divides by six: returns what it divides.
ValueId MatchSixth(const Rewriter& r, const Graph& g, NodeId n) {
  if (n < 0) return kNoValue;
  const auto split = r.SplitScalar(n);
  if (!split) return kNoValue;
  if (r.Is(n, Known().Div) && split->c == 6.0 && split->x == g.nodes[n].inputs[0]) return split->x;
  if (r.Is(n, Known().Mul) && Near(split->c, kSixth)) return split->x;
  return kNoValue;
}

// v = clip(x + 3, 0, 6) / 6 in either spelling.
ValueId MatchGate(const Rewriter& r, const Graph& g, ValueId v, std::vector<NodeId>* used) {
  const NodeId hard = r.Producer(v, Known().HardSigmoid);
  if (hard >= 0) {
    const op::Attrs& a = g.nodes[hard].attrs;
    if (!Near(a.Float("alpha", 0.2), kSixth) || a.Float("beta", 0.5) != 0.5) return kNoValue;
    used->push_back(hard);
    return g.nodes[hard].inputs[0];
  }
  const NodeId sixth = r.Producer(v);
  const ValueId clipped = MatchSixth(r, g, sixth);
  if (clipped == kNoValue) return kNoValue;
  used->push_back(sixth);
  return MatchClip6(r, g, clipped, used);
}

}  // namespace

Status HardSwish(Graph& g, PassContext& c) {
  const op::OpDef* op = Known().HardSwish;
  if (!op) return OkStatus();
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  for (NodeId mul = 0; mul < count; ++mul) {
    if (!r.Is(mul, Known().Mul) || g.nodes[mul].inputs.size() != 2) continue;
    for (int i : {0, 1}) {
      const ValueId x = g.nodes[mul].inputs[i], y = g.nodes[mul].inputs[1 - i];
      if (!IsFloat(r.desc(x).dtype)) break;
      std::vector<NodeId> used = {mul};
      if (MatchGate(r, g, y, &used) == x) {
        ++c.matches, ++c.effects;
        r.Replace(mul, op, {x}, {}, used);
        break;
      }
      used = {mul};
      if (MatchClip6(r, g, y, &used) != x || !r.SingleUse(g.nodes[mul].outputs[0])) continue;
      ++c.matches;
      const NodeId sixth = r.Users(g.nodes[mul].outputs[0])[0];
      if (MatchSixth(r, g, sixth) != g.nodes[mul].outputs[0]) continue;
      used.push_back(sixth);
      ++c.effects;
      r.Replace(sixth, op, {x}, {}, used);
      break;
    }
  }
  return OkStatus();
}

}  // namespace opsnn::graph
