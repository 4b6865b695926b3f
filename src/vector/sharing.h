// When a pass over memory is worth a second thread.
#ifndef OPSNN_VECTOR_SHARING_H_
#define OPSNN_VECTOR_SHARING_H_

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "base/pool_awake.h"

namespace opsnn::vector {

// Less than this much traffic is not worth a task of its own.
inline constexpr int64_t kMinTaskBytes = 64 << 10;

// How many threads take part in a pass over `bytes` of operands with `operations` (Program::CostPerElement
// times the elements)?
inline int ThreadsFor(double bytes, double operations) {
  constexpr double kBytesPerCycle = 32, kLanes = 16;
  // What it takes to hand a part over and to hear that it is done (300 to 500 ns), as much again that two
  // threads save, and operands that another core has in its cache.
  constexpr double kHandoverCycles = 10e3;
  // What it takes to wake a thread up (30 us), and as much again that two of them save.
  constexpr double kWakeCycles = 200e3;
  const double cycles = bytes / kBytesPerCycle + operations / kLanes;
  if (cycles <= kHandoverCycles) return 1;
  const int threads = ThreadsAvailable();
  return threads > 1 && (cycles > kWakeCycles || PoolAtHand()) ? threads : 1;
}

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_SHARING_H_
