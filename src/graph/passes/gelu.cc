#include <cmath>
#include <numbers>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// The factors of a product of nodes, scalars multiplied into one: x, 1 + f(x), 0.5 in any grouping.
struct Product {
  std::vector<ValueId> factors;
  double scale = 1;
  std::vector<NodeId> nodes;
};

// Inner products are opened if nobody else needs them, or, with `shared`, if one factor is a scalar.
void Collect(const Rewriter& r, const Graph& g, ValueId v, bool top, bool shared, Product* p) {
  const NodeId n = r.Producer(v, Known().Mul);
  const bool open = n >= 0 && (top || r.SingleUse(v) || (shared && r.SplitScalar(n)));
  if (!open || p->nodes.size() > 4) {
    p->factors.push_back(v);
    return;
  }
  p->nodes.push_back(n);
  if (const auto s = r.SplitScalar(n)) {
    p->scale *= s->c;
    Collect(r, g, s->x, false, shared, p);
    return;
  }
  for (ValueId in : g.nodes[n].inputs) Collect(r, g, in, false, shared, p);
}

// v = x * c or x / (1/c) for a scalar: returns x and c.
std::optional<Rewriter::WithScalar> MatchScaled(const Rewriter& r, const Graph& g, ValueId v, NodeId* node) {
  *node = r.Producer(v);
  if (*node < 0) return std::nullopt;
  auto s = r.SplitScalar(*node);
  if (!s) return std::nullopt;
  if (r.Is(*node, Known().Mul)) return s;
  if (!r.Is(*node, Known().Div) || s->x != g.nodes[*node].inputs[0] || s->c == 0) return std::nullopt;
  s->c = 1 / s->c;
  return s;
}

// v = x^3 in one of the ways exporters write it.
bool IsCube(const Rewriter& r, const Graph& g, ValueId v, ValueId x, std::vector<NodeId>* used) {
  if (const NodeId pow = r.Producer(v, Known().Pow); pow >= 0) {
    used->push_back(pow);
    return g.nodes[pow].inputs[0] == x && r.ScalarBeside(g.nodes[pow].inputs[1], x) == 3.0;
  }
  Product p;
  Collect(r, g, v, true, false, &p);
  used->insert(used->end(), p.nodes.begin(), p.nodes.end());
  return p.scale == 1 && p.factors == std::vector<ValueId>{x, x, x};
}

// v = sqrt(2/pi) * (x + 0.044715 * x^3).
bool IsTanhArgument(const Rewriter& r, const Graph& g, ValueId v, ValueId x, std::vector<NodeId>* used) {
  NodeId scale, inner_scale;
  const auto outer = MatchScaled(r, g, v, &scale);
  if (!outer || !Near(outer->c, std::sqrt(2 / std::numbers::pi))) return false;
  const NodeId add = r.Producer(outer->x, Known().Add);
  const ValueId cubic = add < 0 ? kNoValue : r.Other(add, x);
  if (cubic == kNoValue) return false;
  const auto inner = MatchScaled(r, g, cubic, &inner_scale);
  if (!inner || !Near(inner->c, 0.044715)) return false;
  used->insert(used->end(), {scale, add, inner_scale});
  return IsCube(r, g, inner->x, x, used);
}

// v = 1 + erf(x / sqrt 2), or 1 + tanh(...): which one, or null.
const char* MatchGate(const Rewriter& r, const Graph& g, ValueId v, ValueId x, std::vector<NodeId>* used) {
  const NodeId add = r.Producer(v, Known().Add);
  const auto split = add < 0 ? std::nullopt : r.SplitScalar(add);
  if (!split || split->c != 1.0) return nullptr;
  used->push_back(add);
  if (const NodeId erf = r.Producer(split->x, Known().Erf); erf >= 0) {
    NodeId scale;
    const auto scaled = MatchScaled(r, g, g.nodes[erf].inputs[0], &scale);
    if (!scaled || scaled->x != x || !Near(scaled->c, std::numbers::sqrt2 / 2)) return nullptr;
    used->insert(used->end(), {erf, scale});
    return "none";
  }
  const NodeId tanh = r.Producer(split->x, Known().Tanh);
  if (tanh < 0 || !IsTanhArgument(r, g, g.nodes[tanh].inputs[0], x, used)) return nullptr;
  used->push_back(tanh);
  return "tanh";
}

bool TryProduct(Rewriter& r, Graph& g, NodeId mul, bool shared, const op::OpDef* op, PassContext& c) {
  Product p;
  Collect(r, g, g.nodes[mul].outputs[0], true, shared, &p);
  if (p.factors.size() != 2 || !Near(p.scale, 0.5)) return false;
  for (int i : {0, 1}) {
    std::vector<NodeId> used = p.nodes;
    const ValueId x = p.factors[i];
    const char* form = MatchGate(r, g, p.factors[1 - i], x, &used);
    if (!form) continue;
    ++c.matches, ++c.effects;
    op::Attrs attrs;
    attrs.Set("approximate", std::string(form));
    r.Replace(mul, op, {x}, std::move(attrs), used);
    return true;
  }
  return false;
}

}  // namespace

Status Gelu(Graph& g, PassContext& c) {
  const op::OpDef* op = Known().Gelu;
  if (!op) return OkStatus();
  Rewriter r(g);
  const NodeId count = r.num_nodes();
  // From the end: the outermost product of a pattern is met before its parts.
  for (NodeId mul = count - 1; mul >= 0; --mul) {
    if (!r.Is(mul, Known().Mul)) continue;
    for (bool shared : {false, true})
      if (TryProduct(r, g, mul, shared, op, c)) break;
  }
  return OkStatus();
}

}  // namespace opsnn::graph
