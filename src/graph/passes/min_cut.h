// The cheapest way to give every node of a small network one of two labels (minimum cut).
#ifndef OPSNN_GRAPH_PASSES_MIN_CUT_H_
#define OPSNN_GRAPH_PASSES_MIN_CUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opsnn::graph {

class MinCut {
 public:
  static constexpr int kZero = 0, kOne = 1;  // nodes whose labels are given
  static constexpr int64_t kNever = INT64_MAX / 4;

  int AddNode();
  // Costs `cost` where u is labelled 0 and w is labelled 1.
  void AddCost(int u, int w, int64_t cost);
  // The least sum of costs. Of the labellings that have it, the one with the fewest ones.
  int64_t Solve();
  bool IsOne(int node) const { return one_[static_cast<size_t>(node)]; }

 private:
  struct Edge {
    int to;
    int64_t room;
  };
  bool Levels();
  int64_t Push();  // along one way, or 0 where there is none left
  void FindOnes();

  std::vector<Edge> edges_;                                   // each beside its reverse
  std::vector<std::vector<int>> out_{2, std::vector<int>()};  // by node: its edges
  std::vector<int> level_;
  std::vector<size_t> next_;
  std::vector<int> way_;  // the edges from kZero to where Push stands
  std::vector<bool> one_;
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PASSES_MIN_CUT_H_
