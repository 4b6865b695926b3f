#include "runtime/memory.h"

#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "base/buffer.h"
#include "base/knobs.h"

namespace opsnn::runtime {
namespace {

constexpr size_t kGranule = 32;  // sizes are multiples of this
constexpr size_t kSpare = 32;    // bytes behind the rounded size

struct Registry {
  std::shared_mutex mutex;
  std::map<uintptr_t, MemoryBlock> blocks;
  size_t bytes = 0, peak = 0;
  uint64_t last_serial = 0;
  std::atomic<uint64_t> frees{0};
};

// Never destroyed: programs free memory from static destructors.
Registry& Blocks() {
  static auto* registry = new Registry;
  return *registry;
}

size_t Footprint(size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule + kSpare; }

const char* What(MemoryKind kind) { return kind == MemoryKind::kDevice ? "device" : "host"; }

}  // namespace

size_t MemoryLimit() {
  const int64_t limit = GetKnobs().memory_limit;
  if (limit > 0) return static_cast<size_t>(limit);
  static const size_t machine =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return machine;
}

Result<void*> Allocate(size_t bytes, MemoryKind kind, int device) {
  if (bytes == 0)
    return InvalidArgument("the size of a %s allocation is 0; it must be at least 1", What(kind));
  const size_t limit = MemoryLimit();
  Registry& r = Blocks();
  {
    std::shared_lock lock(r.mutex);
    if (bytes > limit || r.bytes > limit - bytes) {
      return Errorf(Code::kRuntime,
                    "cannot allocate %zu bytes of %s memory: %zu are in use and the limit is %zu", bytes,
                    What(kind), r.bytes, limit);
    }
  }
  void* p = AllocateAligned(Footprint(bytes));
  if (!p) {
    // Pages are mapped, so that blocks which were freed before cannot be in the way; those that waited for
    // others of their size were given back, and it was not enough.
    const MemoryUse use = GetMemoryUse();
    return Errorf(
        Code::kRuntime,
        "cannot allocate %zu bytes of %s memory: the system refused; %zu blocks of %zu bytes are in "
        "use, %zu at most so far",
        bytes, What(kind), use.blocks, use.bytes, use.peak_bytes);
  }
  std::unique_lock lock(r.mutex);
  r.blocks.emplace(reinterpret_cast<uintptr_t>(p), MemoryBlock{p, bytes, kind, device, ++r.last_serial});
  r.bytes += bytes;
  if (r.bytes > r.peak) r.peak = r.bytes;
  return p;
}

Status Free(void* p, MemoryKind kind) {
  Registry& r = Blocks();
  MemoryBlock block;
  {
    std::unique_lock lock(r.mutex);
    auto it = r.blocks.find(reinterpret_cast<uintptr_t>(p));
    if (it == r.blocks.end()) {
      return InvalidArgument(
          "%p is not the start of a live allocation (freed already, or never allocated here)", p);
    }
    if (it->second.kind != kind) {
      return InvalidArgument("%p is %s memory, it cannot be freed as %s memory", p, What(it->second.kind),
                             What(kind));
    }
    block = it->second;
    r.bytes -= block.bytes;
    r.blocks.erase(it);
    r.frees.fetch_add(1, std::memory_order_release);
  }
  FreeAligned(block.base, Footprint(block.bytes));
  return OkStatus();
}

std::optional<MemoryBlock> FindBlock(const void* p) {
  Registry& r = Blocks();
  std::shared_lock lock(r.mutex);
  auto it = r.blocks.upper_bound(reinterpret_cast<uintptr_t>(p));
  if (it == r.blocks.begin()) return std::nullopt;
  const MemoryBlock& b = std::prev(it)->second;
  if (static_cast<const char*>(p) >= static_cast<char*>(b.base) + b.bytes) return std::nullopt;
  return b;
}

uint64_t FreeCount() { return Blocks().frees.load(std::memory_order_acquire); }

MemoryUse GetMemoryUse() {
  Registry& r = Blocks();
  std::shared_lock lock(r.mutex);
  return {r.bytes, r.peak, r.blocks.size()};
}

}  // namespace opsnn::runtime
