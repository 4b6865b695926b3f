#include "graph/passes/min_cut.h"

#include <algorithm>

namespace opsnn::graph {

int MinCut::AddNode() {
  out_.emplace_back();
  return static_cast<int>(out_.size()) - 1;
}

void MinCut::AddCost(int u, int w, int64_t cost) {
  if (u == w || cost <= 0) return;
  out_[static_cast<size_t>(u)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({w, cost});
  out_[static_cast<size_t>(w)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({u, 0});
}

// Flow along shortest ways, all of one length at a time (Dinic).
int64_t MinCut::Solve() {
  int64_t flow = 0;
  while (Levels()) {
    next_.assign(out_.size(), 0);
    while (const int64_t more = Push()) flow += more;
  }
  FindOnes();
  return flow;
}

bool MinCut::Levels() {
  level_.assign(out_.size(), -1);
  std::vector<int> way{kZero};
  level_[kZero] = 0;
  for (size_t i = 0; i < way.size(); ++i) {
    for (const int e : out_[static_cast<size_t>(way[i])]) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      if (edge.room == 0 || level_[static_cast<size_t>(edge.to)] >= 0) continue;
      level_[static_cast<size_t>(edge.to)] = level_[static_cast<size_t>(way[i])] + 1;
      way.push_back(edge.to);
    }
  }
  return level_[kOne] >= 0;
}

// Steps back from where no edge leads on. A way may be as long as the graph is deep, too long for the stack.
int64_t MinCut::Push() {
  way_.clear();
  for (int u = kZero; u != kOne;) {
    const std::vector<int>& out = out_[static_cast<size_t>(u)];
    size_t& i = next_[static_cast<size_t>(u)];
    const auto leads_on = [&](int e) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      return edge.room > 0 && level_[static_cast<size_t>(edge.to)] == level_[static_cast<size_t>(u)] + 1;
    };
    while (i < out.size() && !leads_on(out[i])) ++i;
    if (i < out.size()) {
      way_.push_back(out[i]);
      u = edges_[static_cast<size_t>(out[i])].to;
    } else if (way_.empty()) {
      return 0;
    } else {
      u = edges_[static_cast<size_t>(way_.back() ^ 1)].to;
      way_.pop_back();
      ++next_[static_cast<size_t>(u)];
    }
  }
  int64_t least = kNever;
  for (const int e : way_) least = std::min(least, edges_[static_cast<size_t>(e)].room);
  for (const int e : way_) {
    edges_[static_cast<size_t>(e)].room -= least;
    edges_[static_cast<size_t>(e ^ 1)].room += least;
  }
  return least;
}

// Those from which there is still a way to kOne.
void MinCut::FindOnes() {
  one_.assign(out_.size(), false);
  one_[kOne] = true;
  std::vector<int> way{kOne};
  for (size_t i = 0; i < way.size(); ++i) {
    for (const int e : out_[static_cast<size_t>(way[i])]) {
      const int from = edges_[static_cast<size_t>(e)].to;
      if (edges_[static_cast<size_t>(e ^ 1)].room == 0 || one_[static_cast<size_t>(from)]) continue;
      one_[static_cast<size_t>(from)] = true;
      way.push_back(from);
    }
  }
}

}  // namespace opsnn::graph
