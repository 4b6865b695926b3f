#include "vector/streaming.h"

#include <algorithm>

#include "isa/cache.h"
#include "isa/caches.h"

namespace opsnn::vector {

int64_t StreamingThreshold() {
  // A result that fills a quarter of the last-level cache is not read again from there by whatever comes
  // next. Cloud machines report caches shared with strangers: count at most 64 MiB of it as ours.
  static const int64_t threshold = [] {
    constexpr int64_t kMostOfIt = 64 << 20;
    return std::min(isa::HostCaches().l3, kMostOfIt) / 4;
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
