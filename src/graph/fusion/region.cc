#include "graph/fusion/region.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

namespace opsnn::graph {
namespace {

// Do all readers of v belong to the group?
bool Hidden(const Rewriter& r, ValueId v, const std::set<NodeId>& group) {
  const auto& users = r.Users(v);
  return !r.IsOutput(v) &&
         std::all_of(users.begin(), users.end(), [&](NodeId n) { return group.count(n) != 0; });
}

class Grower {
 public:
  Grower(Rewriter& r, NodeId seed, const std::function<bool(NodeId)>& eligible)
      : r_(r), seed_(seed), eligible_(eligible), open_{r.node(seed).outputs[0]} {}

  Region Run() {
    AddReaders(open_[0]);
    while (!frontier_.empty() && order_.size() < kMaxRegion) {
      // The lowest id first: a node comes after all members that it reads.
      const NodeId n = *frontier_.begin();
      frontier_.erase(frontier_.begin());
      if (tried_.count(n)) continue;
      if (!Join(n)) continue;
      std::erase_if(open_, [&](ValueId v) { return Hidden(r_, v, group_); });
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
      if (n != seed_) frontier_.insert(n);
  }

  // Adds n, and before it the nodes that compute operands for it alone.
  bool Join(NodeId n) {
    tried_.insert(n);
    if (n == seed_ || order_.size() >= kMaxRegion) return false;
    for (ValueId v : r_.node(n).inputs) {
      const NodeId p = r_.Producer(v);
      if (p >= 0 && p != seed_ && !group_.count(p) && !tried_.count(p) && r_.SingleUse(v) &&
          r_.node(p).op->program)
        Join(p);
    }
    if (!eligible_(n)) return false;
    group_.insert(n);
    order_.push_back(n);
    open_.push_back(r_.node(n).outputs[0]);
    AddReaders(open_.back());
    return true;
  }

  Rewriter& r_;
  const NodeId seed_;
  const std::function<bool(NodeId)>& eligible_;
  std::set<NodeId> group_, tried_, frontier_;
  std::vector<ValueId> open_;  // computed in the group and visible outside
  std::vector<NodeId> order_;
  size_t best_ = 0;  // longest prefix of order_ with one visible value, its last
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
