// ArenaPool: the memory for activations, shared by all prepared forms of a session.
//
// A run takes a buffer and gives it back, so a session holds as many as it has runs at the same time, however
// many shapes it has seen; a new shape finds pages that are already mapped.
#ifndef OPSNN_GRAPH_ARENA_POOL_H_
#define OPSNN_GRAPH_ARENA_POOL_H_

#include <cstddef>
#include <mutex>
#include <vector>

#include "graph/arena.h"

namespace opsnn::graph {

class ArenaPool {
 public:
  // Buffers waiting for the next run hold at most `keep_bytes`; one of any size always stays.
  explicit ArenaPool(size_t keep_bytes) : keep_bytes_(keep_bytes) {}

  // At least `bytes`: the smallest waiting buffer that is large enough, else the largest waiting one, grown.
  // Without data when there is no memory.
  Arena Take(size_t bytes);
  void Give(Arena buffer);
  size_t bytes() const;  // of the buffers waiting

 private:
  const size_t keep_bytes_;
  mutable std::mutex mutex_;
  std::vector<Arena> free_;  // newest last
};

}  // namespace opsnn::graph

#endif  // OPSNN_GRAPH_ARENA_POOL_H_
