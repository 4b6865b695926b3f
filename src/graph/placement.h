// Placement: offsets in one arena for blocks that live for a while each.
//
// Which order and which gap give the smallest arena differs from graph to graph: all are tried until one
// needs hardly more than what lives at once, which nothing can go below.
#ifndef OPSNN_GRAPH_PLACEMENT_H_
#define OPSNN_GRAPH_PLACEMENT_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace opsnn::graph {

struct Block {
  size_t bytes = 0, offset = 0;
  int first = 0, last = 0;  // steps, both included
};

struct Placement {
  size_t bytes = 0;                                   // of the arena
  std::string strategy;                               // that gave it, "size, smallest gap"
  std::vector<std::pair<std::string, size_t>> tried;  // and what each needed, in the order tried
};

// The largest sum of blocks alive in one step.
size_t LivePeak(const std::vector<Block>& blocks);

// Sets the offsets. Blocks alive in the same step never overlap.
Placement PlaceBlocks(std::vector<Block>& blocks);

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_PLACEMENT_H_
