#include "vector/streaming.h"

#include <unistd.h>

#include <algorithm>

#include "isa/cache.h"
#include "isa/cpuid.h"

namespace opsnn::vector {

namespace {

// The cache that a core shares with its neighbours, or its own last one. The processor is asked: the C
// library adds up the caches of a whole socket on some.
int64_t LastLevelCache() {
  int64_t bytes = 0;
  for (const isa::CpuCache& c : isa::CachesByCpuid()) bytes = std::max(bytes, c.bytes);
#ifdef _SC_LEVEL3_CACHE_SIZE
  if (bytes == 0) bytes = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE));
#endif
  return bytes;
}

}  // namespace

int64_t StreamingThreshold() {
  // A result that fills a quarter of the last-level cache is not read again from there by whatever comes
  // next. Cloud machines report caches shared with strangers: count at most 64 MiB of it as ours.
  static const int64_t threshold = [] {
    constexpr int64_t kUnknown = 8 << 20, kMostOfIt = 64 << 20;
    const int64_t cache = LastLevelCache();
    return (cache > 0 ? std::min(cache, kMostOfIt) : kUnknown) / 4;
  }();
  return threshold;
}

namespace {
thread_local int64_t whole_result_bytes = 0;
}  // namespace

PartOfResult::PartOfResult(int64_t bytes) : outer_(whole_result_bytes) { whole_result_bytes = bytes; }
PartOfResult::~PartOfResult() { whole_result_bytes = outer_; }
int64_t PartOfResult::Bytes() { return whole_result_bytes; }

void FlushStreams() { hwy::FlushStream(); }

}  // namespace opsnn::vector
