#include "graph/arena_pool.h"

#include <algorithm>

namespace opsnn::graph {

AlignedBuffer ArenaPool::Take(size_t bytes) {
  AlignedBuffer found;
  {
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (it->bytes() >= bytes && (best == free_.end() || it->bytes() < best->bytes())) best = it;
    // None is large enough: the newest makes room for its replacement.
    if (best == free_.end() && !free_.empty()) best = free_.end() - 1;
    if (best != free_.end()) {
      found = std::move(*best);
      free_.erase(best);
    }
  }
  if (found && found.bytes() >= bytes) return found;
  found = AlignedBuffer();  // before the new one is made: both may not fit
  return AlignedBuffer(bytes);
}

void ArenaPool::Give(AlignedBuffer buffer) {
  std::vector<AlignedBuffer> dropped;  // freed outside the lock
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(buffer));
  size_t total = 0;
  for (const AlignedBuffer& b : free_) total += b.bytes();
  while (free_.size() > 1 && total > keep_bytes_) {
    total -= free_.front().bytes();
    dropped.push_back(std::move(free_.front()));
    free_.erase(free_.begin());
  }
}

size_t ArenaPool::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const AlignedBuffer& b : free_) total += b.bytes();
  return total;
}

}  // namespace opsnn::graph
