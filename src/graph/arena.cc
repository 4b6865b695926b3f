#include "graph/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/pages.h"

namespace opsnn::graph {

bool Arena::Grow(size_t bytes) {
  if (bytes <= bytes_) return true;
  const size_t page = bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
  if (bytes > PTRDIFF_MAX - 2 * kHugePageBytes) return Release(), false;
  bytes = (bytes + page - 1) / page * page;
  char* to = static_cast<char*>(MapPages(bytes));
  if (!to) {  // both may not fit
    Release();
    to = static_cast<char*>(MapPages(bytes));
    if (!to) return false;
  }
  size_t moved = 0;
  for (size_t piece : pieces_) {
    void* from = data_ + moved;
    if (mremap(from, piece, piece, MREMAP_MAYMOVE | MREMAP_FIXED, to + moved) == MAP_FAILED) {
      // It may have unmapped its target: nothing of the new range is certain, so all of it is made again.
      UnmapPages(data_ + moved, bytes_ - moved);
      UnmapPages(to, bytes);
      data_ = nullptr, bytes_ = 0;
      pieces_.clear();
      return Grow(bytes);
    }
    moved += piece;
  }
  if (bytes >= kHugePageBytes) AskForHugePages(to + moved, bytes - moved);
  if (bytes > moved) pieces_.push_back(bytes - moved);
  data_ = to;
  bytes_ = bytes;
  return true;
}

void Arena::Release() {
  if (data_) UnmapPages(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
  pieces_.clear();
}

}  // namespace opsnn::graph
