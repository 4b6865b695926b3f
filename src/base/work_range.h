// A range of indices that its owner takes from the front while others help from the back.
//
// ParallelFor hands out indices from one counter, so a thread never knows which one it gets next. Where that
// matters, because what comes next is to be fetched from memory meanwhile, each thread owns such a range
// instead; helpers keep the threads even.
#ifndef OPSNN_BASE_WORK_RANGE_H_
#define OPSNN_BASE_WORK_RANGE_H_

#include <atomic>
#include <cstdint>

#include "base/parallel.h"

namespace opsnn {

class alignas(64) WorkRange {
 public:
  // [begin, end), each below 2^32. Before anybody takes.
  void Set(int64_t begin, int64_t end) { bounds_.store(Pack(begin, end), std::memory_order_relaxed); }

  // False when nothing is left. The owner's next index is the following one, unless a helper takes it.
  bool TakeFirst(int64_t* index) {
    uint64_t was = bounds_.load(std::memory_order_relaxed);
    do {
      if (Begin(was) >= End(was)) return false;
    } while (!bounds_.compare_exchange_weak(was, Pack(Begin(was) + 1, End(was)), std::memory_order_relaxed));
    *index = Begin(was);
    return true;
  }

  bool TakeLast(int64_t* index) {
    uint64_t was = bounds_.load(std::memory_order_relaxed);
    do {
      if (Begin(was) >= End(was)) return false;
    } while (!bounds_.compare_exchange_weak(was, Pack(Begin(was), End(was) - 1), std::memory_order_relaxed));
    *index = End(was) - 1;
    return true;
  }

 private:
  static uint64_t Pack(int64_t begin, int64_t end) {
    return static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end);
  }
  static int64_t Begin(uint64_t v) { return static_cast<int64_t>(v >> 32); }
  static int64_t End(uint64_t v) { return static_cast<int64_t>(v & 0xFFFFFFFFu); }

  std::atomic<uint64_t> bounds_{0};
};

// ParallelFor where it matters which thread has what: thread t begins with the t-th part of [0, n), in order,
// and helps at the far ends of the others when it is done. Consecutive calls over the same thing, such as
// the channels of an image, then find it in the caches of the core that wrote it. n below 2^32.
void ParallelOwned(int64_t n, FunctionRef<void(int64_t index)> fn);

// fn(part) once for every part in [0, parts), at most one for each thread available: part 0 on the caller,
// each other one on the same thread at every call. The cheapest way to share some microseconds of work that
// is in the caches of these threads. Parts whose threads did not come while the caller did its own are the
// caller's.
void ParallelParts(int parts, FunctionRef<void(int64_t part)> fn);

}  // namespace opsnn

#endif  // OPSNN_BASE_WORK_RANGE_H_
