#include "base/buffer.h"

#include <malloc.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "base/buffer_stats.h"

namespace opsnn {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t Alignment(size_t bytes) { return bytes >= kHugePage ? kHugePage : kAlignment; }
size_t Rounded(size_t bytes) {
  const size_t align = Alignment(bytes);
  return bytes ? (bytes + align - 1) / align * align : align;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kCacheBytes = 0;  // every block must be seen to come and go
#else
// The C library gives large blocks back to the system at once, and every page of the next one is a fault of a
// microsecond or so: more than a memory-bound operator needs for it. So a few freed blocks wait here.
constexpr size_t kCacheBytes = size_t{64} << 20;
#endif
constexpr size_t kSmallestCached = 64 << 10;  // below, the C library keeps its own lists
// A loop over a few sizes finds every block again. Where sizes never come back, blocks that this many
// requests passed over in vain go, so that what waits does not grow with the number of sizes.
constexpr int64_t kLongestWait = 8;

class BlockCache {
 public:
  // A block of at least `bytes` and at most half as many more, aligned for them, or null.
  void* Take(size_t bytes) {
    const Lock lock(this);
    if (!lock.held) return nullptr;
    Block* best = nullptr;
    for (Block& b : blocks_)
      if (b.bytes >= bytes && b.bytes <= bytes + bytes / 2 && (!best || b.bytes < best->bytes) && b.data &&
          reinterpret_cast<uintptr_t>(b.data) % Alignment(bytes) == 0)
        best = &b;
    if (best) return Remove(*best);
    ++misses_;
    for (Block& b : blocks_)
      if (b.data && misses_ - b.given > kLongestWait) std::free(Remove(b));
    return nullptr;
  }

  // True if the block is kept. The oldest blocks make room for it.
  bool Give(void* data) {
    const size_t bytes = malloc_usable_size(data);
    if (bytes < kSmallestCached || bytes > kCacheBytes) return false;
    const Lock lock(this);
    if (!lock.held) return false;
    while (total_ + bytes > kCacheBytes || blocks_[next_].data) {
      Block& old = blocks_[next_];
      if (old.data) std::free(Remove(old));
      if (total_ + bytes > kCacheBytes) next_ = (next_ + 1) % blocks_.size();
    }
    blocks_[next_] = {data, bytes, misses_};
    next_ = (next_ + 1) % blocks_.size();
    total_ += bytes;
    return true;
  }

  size_t total() {
    const Lock lock(this);
    return total_;
  }

 private:
  struct Block {
    void* data = nullptr;
    size_t bytes = 0;
    int64_t given = 0;  // misses_ then
  };
  void* Remove(Block& b) {
    total_ -= b.bytes;
    return std::exchange(b.data, nullptr);
  }
  // Never waits: whoever finds the cache busy, or forked while it was, goes to the C library.
  struct Lock {
    explicit Lock(BlockCache* c) : cache(c), held(!c->busy_.exchange(true, std::memory_order_acquire)) {}
    ~Lock() {
      if (held) cache->busy_.store(false, std::memory_order_release);
    }
    BlockCache* cache;
    bool held;
  };

  std::atomic<bool> busy_{false};
  std::array<Block, 16> blocks_;  // a ring, the oldest at next_
  size_t next_ = 0, total_ = 0;
  int64_t misses_ = 0;
};

BlockCache g_cache;  // no destructor: blocks still in it go with the process
thread_local int64_t t_bytes = 0;
std::atomic<int64_t> g_bytes{0};

void Count(int64_t bytes) {
  t_bytes += bytes;
  g_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace

void* AllocateAligned(size_t bytes) {
  if (bytes > PTRDIFF_MAX - kHugePage) return nullptr;
  const size_t align = Alignment(bytes), rounded = Rounded(bytes);
  void* p = bytes >= kSmallestCached && rounded <= kCacheBytes ? g_cache.Take(rounded) : nullptr;
  if (!p) {
    p = std::aligned_alloc(align, rounded);
    // Asked for only: where huge pages are off the call fails and nothing changes.
    if (p && align == kHugePage) madvise(p, rounded, MADV_HUGEPAGE);
  }
  if (p) Count(static_cast<int64_t>(bytes));
  return p;
}

void FreeAligned(void* p, size_t bytes) {
  if (!p) return;
  Count(-static_cast<int64_t>(bytes));
  if (bytes < kSmallestCached || !g_cache.Give(p)) std::free(p);
}

int64_t ThreadBufferBytes() { return t_bytes; }

int64_t LiveBufferBytes() { return g_bytes.load(std::memory_order_relaxed); }

int64_t IdleBufferBytes() { return static_cast<int64_t>(g_cache.total()); }

}  // namespace opsnn
