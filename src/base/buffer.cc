#include "base/buffer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "base/buffer_stats.h"
#include "base/pages.h"

namespace opsnn {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kLargeBytes = SIZE_MAX;  // every block must be seen to come and go, with guards around it
#else
// From here on a block is pages of its own; the C library keeps lists for smaller ones.
constexpr size_t kLargeBytes = size_t{64} << 10;
#endif
// Giving pages back to the system at once would make every page of the next block a fault of a microsecond or
// so: more than a memory-bound operator needs for it. So a few freed blocks wait here.
constexpr size_t kCacheBytes = size_t{64} << 20;
// A loop over a few sizes finds every block again. Where sizes never come back, blocks that this many
// requests passed over in vain go, so that what waits does not grow with the number of sizes.
constexpr int64_t kLongestWait = 8;

// What a large block takes: steps of half a power of two, of an eighth from huge pages up, so that sizes near
// each other share a block that waits. Of a fresh one only pages that are touched take memory.
size_t PagesFor(size_t bytes) {
  const size_t octave = std::bit_floor(bytes);
  const size_t unit = bytes < kHugePageBytes ? octave / 2 : std::max(octave / 8, kHugePageBytes);
  return (bytes + unit - 1) / unit * unit;
}

class BlockCache {
 public:
  // A block of just `bytes`, or null.
  void* Take(size_t bytes) {
    const Lock lock(this);
    if (!lock.held) return nullptr;
    for (Block& b : blocks_)
      if (b.data && b.bytes == bytes) return Remove(b);
    ++misses_;
    for (Block& b : blocks_)
      if (b.data && misses_ - b.given > kLongestWait) Drop(b);
    return nullptr;
  }

  // True if the block is kept. The oldest blocks make room for it.
  bool Give(void* data, size_t bytes) {
    if (bytes > kCacheBytes) return false;
    const Lock lock(this);
    if (!lock.held) return false;
    while (total_ + bytes > kCacheBytes || blocks_[next_].data) {
      if (blocks_[next_].data) Drop(blocks_[next_]);
      if (total_ + bytes > kCacheBytes) next_ = (next_ + 1) % blocks_.size();
    }
    blocks_[next_] = {data, bytes, misses_};
    next_ = (next_ + 1) % blocks_.size();
    total_ += bytes;
    return true;
  }

  IdleBlocks idle() {
    const Lock lock(this);
    IdleBlocks all;
    all.bytes = static_cast<int64_t>(total_);
    if (!lock.held) return all;
    all.bytes = 0;
    for (const Block& b : blocks_) {
      if (!b.data) continue;
      ++all.count, all.bytes += static_cast<int64_t>(b.bytes);
      all.largest = std::max(all.largest, static_cast<int64_t>(b.bytes));
    }
    return all;
  }

  // Gives every block back to the system; false where there was none.
  bool DropAll() {
    const Lock lock(this);
    if (!lock.held || total_ == 0) return false;
    for (Block& b : blocks_)
      if (b.data) Drop(b);
    return true;
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
  void Drop(Block& b) {
    const size_t bytes = b.bytes;
    UnmapPages(Remove(b), bytes);
  }
  // Never waits: whoever finds the cache busy, or forked while it was, goes to the system.
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
  if (bytes > PTRDIFF_MAX / 2) return nullptr;  // room to round up
  void* p = nullptr;
  if (bytes < kLargeBytes) {
    p = std::aligned_alloc(kAlignment,
                           bytes ? (bytes + kAlignment - 1) / kAlignment * kAlignment : kAlignment);
  } else {
    const size_t size = PagesFor(bytes);
    p = size <= kCacheBytes ? g_cache.Take(size) : nullptr;
    if (!p) {
      p = MapPages(size);
      // What waits may be what is missing, in pieces that are too small.
      if (!p && g_cache.DropAll()) p = MapPages(size);
      if (p && size >= kHugePageBytes) AskForHugePages(p, size);
    }
  }
  if (p) Count(static_cast<int64_t>(bytes));
  return p;
}

void FreeAligned(void* p, size_t bytes) {
  if (!p) return;
  Count(-static_cast<int64_t>(bytes));
  if (bytes < kLargeBytes) {
    std::free(p);
  } else if (const size_t size = PagesFor(bytes); !g_cache.Give(p, size)) {
    UnmapPages(p, size);
  }
}

int64_t ThreadBufferBytes() { return t_bytes; }

int64_t LiveBufferBytes() { return g_bytes.load(std::memory_order_relaxed); }

IdleBlocks IdleBuffers() { return g_cache.idle(); }

}  // namespace opsnn
