#include "graph/fusion/region.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace opsnn::graph {
namespace {

// Groups are small and most end after a few nodes: a list is searched faster than a tree is built.
using Nodes = std::vector<NodeId>;
bool Holds(const Nodes& list, NodeId n) { return std::find(list.begin(), list.end(), n) != list.end(); }

// Do all readers of v belong to the group?
bool Hidden(const Rewriter& r, ValueId v, const Nodes& group) {
  const auto& users = r.Users(v);
  return !r.IsOutput(v) && std::all_of(users.begin(), users.end(), [&](NodeId n) { return Holds(group, n); });
}

class Grower {
 public:
  Grower(Rewriter& r, NodeId seed, const std::function<bool(NodeId)>& eligible)
      : r_(r), seed_(seed), eligible_(eligible), open_{r.node(seed).outputs[0]} {}

  Region Run() {
    AddReaders(open_[0]);
    while (!frontier_.empty() && order_.size() < kMaxRegion) {
      // The lowest id first: a node comes after all members that it reads.
      const auto lowest = std::min_element(frontier_.begin(), frontier_.end());
      const NodeId n = *lowest;
      frontier_.erase(lowest);
      if (Holds(tried_, n)) continue;
      if (!Join(n)) continue;
      std::erase_if(open_, [&](ValueId v) { return Hidden(r_, v, order_); });
      if (open_.empty() || (open_.size() == 1 && open_[0] == r_.node(n).outputs[0])) best_ = order_.size();
    }
    order_.resize(best_);
    Region region;
    region.output = r_.node(order_.empty() ? seed_ : order_.back()).outputs[0];
    region.nodes = std::move(order_);
    return region;
  }

 private:
  void AddReaders(ValueId v) {
    for (NodeId n : r_.Users(v))
      if (n != seed_ && !Holds(frontier_, n)) frontier_.push_back(n);
  }

  // Adds n, and before it the nodes that compute operands for it alone.
  bool Join(NodeId n) {
    tried_.push_back(n);
    if (n == seed_ || order_.size() >= kMaxRegion) return false;
    for (ValueId v : r_.node(n).inputs) {
      const NodeId p = r_.Producer(v);
      if (p >= 0 && p != seed_ && !Holds(order_, p) && !Holds(tried_, p) && r_.SingleUse(v) &&
          (r_.node(p).op->program || r_.node(p).op == Known().DequantizeLinear))
        Join(p);
    }
    if (!eligible_(n)) return false;
    order_.push_back(n);
    open_.push_back(r_.node(n).outputs[0]);
    AddReaders(open_.back());
    return true;
  }

  Rewriter& r_;
  const NodeId seed_;
  const std::function<bool(NodeId)>& eligible_;
  Nodes tried_, frontier_;
  std::vector<ValueId> open_;  // computed in the group and visible outside
  Nodes order_;                // the group
  size_t best_ = 0;            // longest prefix of order_ with one visible value, its last
};

}  // namespace

Region GrowRegion(Rewriter& r, NodeId seed, const std::function<bool(NodeId)>& eligible) {
  return Grower(r, seed, eligible).Run();
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
