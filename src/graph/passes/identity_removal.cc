#include <algorithm>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// Shapes of input 0 and output 0 are known and equal.
bool SameShape(const Rewriter& r, const Node& n) {
  const op::TensorDesc& x = r.desc(n.inputs[0]);
  const op::TensorDesc& y = r.desc(n.outputs[0]);
  return x.known_rank && y.known_rank && IsKnown(x.dims) && x.dims == y.dims && x.dtype == y.dtype;
}

bool IsIdentityPerm(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return !perm.empty();
}

// The operand that this node returns unchanged, or kNoValue.
ValueId PassedThrough(const Rewriter& r, NodeId id, const Node& n) {
  if (n.inputs.empty() || n.inputs[0] == kNoValue || n.outputs[0] == kNoValue) return kNoValue;
  const op::OpDef* op = n.op;
  const KnownOps& k = Known();
  if (op == k.Identity || (op == k.Concat && n.inputs.size() == 1)) return n.inputs[0];
  if (op == k.Cast && r.desc(n.inputs[0]).dtype == r.desc(n.outputs[0]).dtype) return n.inputs[0];
  if (op == k.Dropout &&
      (n.outputs.size() < 2 || (r.Users(n.outputs[1]).empty() && !r.IsOutput(n.outputs[1]))))
    return n.inputs[0];
  if (op == k.Transpose && IsIdentityPerm(n.attrs.Ints("perm"))) return n.inputs[0];
  if (op == k.Mul || op == k.Div || op == k.Add || op == k.Sub) {
    // x * 1 and x / 1 keep every bit; x + 0 turns -0 into +0, so only x - 0 qualifies of the others.
    if (op == k.Add) return kNoValue;
    const auto split = r.SplitScalar(id);
    if (!split || split->c != (op == k.Sub ? 0.0 : 1.0)) return kNoValue;
    if (op != k.Mul && split->x != n.inputs[0]) return kNoValue;
    // A constant of higher rank than x would add dims.
    const op::TensorDesc& x = r.desc(split->x);
    const op::TensorDesc& s = r.desc(r.Other(id, split->x));
    return x.known_rank && s.dims.rank() <= x.dims.rank() && x.dtype == s.dtype ? split->x : kNoValue;
  }
  // Operators that keep the elements in order wherever they keep the shape.
  for (const op::OpDef* keeps : {k.Reshape, k.Flatten, k.Expand, k.Squeeze, k.Unsqueeze, k.Tile})
    if (op == keeps) return SameShape(r, n) ? n.inputs[0] : kNoValue;
  if (op == k.Pad && SameShape(r, n) && n.inputs.size() > 1 && n.inputs[1] != kNoValue) {
    const ConstTensor pads = r.desc(n.inputs[1]).constant;  // one side may grow as the other is cut
    if (!pads) return kNoValue;
    const auto v = ToInts(*pads);
    return std::all_of(v.begin(), v.end(), [](int64_t p) { return p == 0; }) ? n.inputs[0] : kNoValue;
  }
  if (op == k.Slice && SameShape(r, n)) {  // with a negative step it may reverse
    if (n.inputs.size() < 5 || n.inputs[4] == kNoValue) return n.inputs[0];
    const ConstTensor steps = r.desc(n.inputs[4]).constant;
    if (!steps) return kNoValue;
    const auto v = ToInts(*steps);
    return std::all_of(v.begin(), v.end(), [](int64_t s) { return s > 0; }) ? n.inputs[0] : kNoValue;
  }
  return kNoValue;
}

}  // namespace

Status IdentityRemoval(Graph& g, PassContext& c) {
  Rewriter r(g);
  for (NodeId id = 0; id < r.num_nodes(); ++id) {
    const Node& n = g.nodes[id];
    if (n.dead || n.tail) continue;
    const ValueId x = PassedThrough(r, id, n);
    if (x == kNoValue) continue;
    ++c.matches;
    const ValueId y = n.outputs[0];
    if (!r.IsOutput(y)) {
      r.ReplaceUses(y, x);
      r.Kill(id);
      ++c.effects;
      continue;
    }
    // A graph output keeps its value: the node before writes it, if that is possible.
    const NodeId p = r.Producer(x);
    if (p < 0 || r.IsOutput(x)) continue;
    auto& out = g.nodes[p].outputs;
    r.Kill(id);
    r.ReplaceUses(x, y);
    std::replace(out.begin(), out.end(), x, y);
    g.values[y].producer = p;
    g.values[x].producer = -1;
    ++c.effects;
  }
  return OkStatus();
}

}  // namespace opsnn::graph
