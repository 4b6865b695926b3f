// Fragmentation of a model's memory plan: what of the arena lies unused while each node runs, and in how many
// pieces.
#ifndef OPSNN_OBSERVE_FRAGMENTATION_H_
#define OPSNN_OBSERVE_FRAGMENTATION_H_

#include <cstddef>

#include "graph/prepared.h"

namespace opsnn::observe {

// Unused stretches of the arena while one step runs.
struct Holes {
  int step = -1;  // -1: there is no step
  int count = 0;
  size_t bytes = 0, largest = 0;
  size_t Scattered() const { return bytes - largest; }  // what no single block could use
};

struct Fragmentation {
  Holes at_peak;         // where the most lives at once
  Holes most_scattered;  // where the least of what is unused is in one piece
  size_t padding = 0;    // what alignment adds, over all buffers
};
Fragmentation FragmentationOf(const graph::Prepared& prepared);

}  // namespace opsnn::observe

#endif  // OPSNN_OBSERVE_FRAGMENTATION_H_
