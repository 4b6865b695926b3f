#include "graph/arena_pool.h"

#include <algorithm>

namespace opsnn::graph {

Arena ArenaPool::Take(size_t bytes) {
  Arena found;
  {
    const std::lock_guard lock(mutex_);
    auto best = free_.end(), largest = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->bytes() >= bytes && (best == free_.end() || it->bytes() < best->bytes())) best = it;
      if (largest == free_.end() || it->bytes() > largest->bytes()) largest = it;
    }
    if (best == free_.end()) best = largest;
    if (best != free_.end()) {
      found = std::move(*best);
      free_.erase(best);
    }
  }
  // A plan without activations gets an address all the same.
  found.Grow(std::max<size_t>(bytes, 1));
  return found;
}

void ArenaPool::Give(Arena buffer) {
  std::vector<Arena> dropped;  // freed outside the lock
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
  size_t total = 0;
  for (const Arena& b : free_) total += b.bytes();
  while (free_.size() > 1 && total > keep_bytes_) {
    total -= free_.front().bytes();
    dropped.push_back(std::move(free_.front()));
    free_.erase(free_.begin());
  }
}

size_t ArenaPool::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const Arena& b : free_) total += b.bytes();
  return total;
}

}  // namespace opsnn::graph
