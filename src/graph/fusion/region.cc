#include "graph/fusion/region.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace opsnn::graph {
namespace {

// Do all readers of v belong to the group?
bool Hidden(const Rewriter& r, ValueId v, const std::set<NodeId>& group) {
  const auto& users = r.Users(v);
  return !r.IsOutput(v) &&
         std::all_of(users.begin(), users.end(), [&](NodeId n) { return group.count(n) != 0; });
}

}  // namespace

Region GrowRegion(Rewriter& r, NodeId seed, const std::function<bool(NodeId)>& eligible) {
  std::set<NodeId> group, tried, frontier;
  std::vector<ValueId> values = {r.node(seed).outputs[0]};  // computed in the group
  std::vector<ValueId> open = values;                       // of those, visible outside
  std::vector<NodeId> order;
  size_t best = 0;
  for (NodeId n : r.Users(values[0])) frontier.insert(n);
  while (!frontier.empty() && order.size() < kMaxRegion) {
    // The lowest id first: a node comes after all members that it reads.
    const NodeId n = *frontier.begin();
    frontier.erase(frontier.begin());
    if (!tried.insert(n).second || n == seed || !eligible(n)) continue;
    group.insert(n);
    order.push_back(n);
    open.push_back(r.node(n).outputs[0]);
    for (NodeId user : r.Users(open.back()))
      if (!tried.count(user)) frontier.insert(user);
    open.erase(std::remove_if(open.begin(), open.end(), [&](ValueId v) { return Hidden(r, v, group); }),
               open.end());
    if (open.empty() || (open.size() == 1 && open[0] == r.node(n).outputs[0])) best = order.size();
  }
  order.resize(best);
  Region region;
  region.output = order.empty() ? r.node(seed).outputs[0] : r.node(order.back()).outputs[0];
  region.nodes = std::move(order);
  return region;
}

std::string ChainName(const Graph& g, NodeId seed, const std::vector<NodeId>& nodes) {
  const auto lower = [](std::string s) {
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
    return s;
  };
  std::string name = lower(g.nodes[seed].op->name);
  for (NodeId n : nodes) name += "+" + lower(g.nodes[n].op->name);
  return name;
}

}  // namespace opsnn::graph
