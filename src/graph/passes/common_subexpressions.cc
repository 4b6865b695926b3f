#include <cstring>
#include <functional>
#include <unordered_map>

#include "graph/passes/passes.h"
#include "graph/passes/rewriter.h"

namespace opsnn::graph {
namespace {

// Larger constants are compared by identity only.
constexpr size_t kSmallConstant = 256;

bool SameConstant(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.dims() == b.dims() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

void Mix(size_t* h, size_t v) { *h = (*h ^ v) * 0x9E3779B97F4A7C15u + (*h >> 29); }

// Equal small constants become one value, so that nodes on them compare equal.
void MergeConstants(Rewriter& r) {
  Graph& g = r.graph();
  std::unordered_multimap<size_t, ValueId> seen;
  for (size_t i = 0; i < g.values.size(); ++i) {
    const ValueId v = static_cast<ValueId>(i);
    const HostTensor* t = g.values[v].desc.constant.get();
    if (!t || r.Users(v).empty() || !g.values[v].IsConstant() || g.values[v].stored || r.IsOutput(v))
      continue;
    const size_t bytes = t->bytes();
    if (bytes > kSmallConstant) continue;
    size_t h = bytes;
    Mix(&h, static_cast<size_t>(t->dtype()));
    for (int64_t d : t->dims()) Mix(&h, static_cast<size_t>(d));
    for (size_t b = 0; b < bytes; ++b) Mix(&h, t->as<uint8_t>()[b]);
    const auto [begin, end] = seen.equal_range(h);
    ValueId same = kNoValue;
    for (auto it = begin; it != end && same == kNoValue; ++it)
      if (SameConstant(*g.values[it->second].desc.constant, *t)) same = it->second;
    if (same != kNoValue) {
      r.ReplaceUses(v, same);
    } else {
      seen.emplace(h, v);
    }
  }
}

bool SameNode(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.outputs.size() == b.outputs.size() &&
         (a.attrs.SameObject(b.attrs) || a.attrs.all() == b.attrs.all()) && !a.tail && !b.tail;
}

}  // namespace

Status CommonSubexpressions(Graph& g, PassContext& c) {
  Rewriter r(g);
  MergeConstants(r);
  std::unordered_multimap<size_t, NodeId> seen;
  for (NodeId n = 0; n < r.num_nodes(); ++n) {
    const Node& node = g.nodes[n];
    if (node.dead || node.tail) continue;
    size_t h = reinterpret_cast<size_t>(node.op);
    for (ValueId v : node.inputs) Mix(&h, static_cast<size_t>(v));
    const auto [begin, end] = seen.equal_range(h);
    NodeId same = -1;
    for (auto it = begin; it != end && same < 0; ++it)
      if (SameNode(g.nodes[it->second], node)) same = it->second;
    if (same < 0) {
      seen.emplace(h, n);
      continue;
    }
    ++c.matches;
    // A value the caller asks for keeps its own name and node.
    bool keep = false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId mine = node.outputs[i], other = g.nodes[same].outputs[i];
      keep = keep || (mine != kNoValue && (other == kNoValue || r.IsOutput(mine)));
    }
    if (keep) continue;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      if (node.outputs[i] != kNoValue) r.ReplaceUses(node.outputs[i], g.nodes[same].outputs[i]);
    auto& origins = g.nodes[same].origins;
    origins.insert(origins.end(), node.origins.begin(), node.origins.end());
    r.Kill(n);
    ++c.effects;
  }
  return OkStatus();
}

}  // namespace opsnn::graph
