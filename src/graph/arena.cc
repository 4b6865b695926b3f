#include "graph/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace opsnn::graph {
namespace {

constexpr size_t kHugePage = size_t{2} << 20, kPage = size_t{4} << 10;

// Addresses for `bytes` whose start lies on a huge page; null where there are none.
char* Reserve(size_t bytes) {
  const size_t span = bytes + kHugePage;
  void* p = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(p);
  const uintptr_t at = (begin + kHugePage - 1) / kHugePage * kHugePage;
  if (at > begin) munmap(p, at - begin);
  if (begin + span > at + bytes) munmap(reinterpret_cast<void*>(at + bytes), begin + span - at - bytes);
  return reinterpret_cast<char*>(at);
}

}  // namespace

bool Arena::Grow(size_t bytes) {
  if (bytes <= bytes_) return true;
  const size_t page = bytes >= kHugePage ? kHugePage : kPage;
  if (bytes > PTRDIFF_MAX - 2 * kHugePage) return Release(), false;
  bytes = (bytes + page - 1) / page * page;
  char* to = Reserve(bytes);
  if (!to) {  // both may not fit
    Release();
    to = Reserve(bytes);
    if (!to) return false;
  }
  size_t moved = 0;
  for (size_t piece : pieces_) {
    void* from = data_ + moved;
    if (mremap(from, piece, piece, MREMAP_MAYMOVE | MREMAP_FIXED, to + moved) == MAP_FAILED) {
      // It may have unmapped its target: nothing of the new range is certain, so all of it is made again.
      munmap(data_ + moved, bytes_ - moved);
      munmap(to, bytes);
      data_ = nullptr, bytes_ = 0;
      pieces_.clear();
      return Grow(bytes);
    }
    moved += piece;
  }
  // Asked for only: where huge pages are off the call fails and nothing changes.
  if (bytes >= kHugePage) madvise(to + moved, bytes - moved, MADV_HUGEPAGE);
  if (bytes > moved) pieces_.push_back(bytes - moved);
  data_ = to;
  bytes_ = bytes;
  return true;
}

void Arena::Release() {
  if (data_) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
  pieces_.clear();
}

}  // namespace opsnn::graph
