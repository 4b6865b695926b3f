// When a pass over memory is worth a second thread.
#ifndef OPSNN_VECTOR_SHARING_H_
#define OPSNN_VECTOR_SHARING_H_

#include <cstdint>

#include "base/pool_awake.h"

namespace opsnn::vector {

// Less than this much traffic is not worth a task of its own.
inline constexpr int64_t kMinTaskBytes = 64 << 10;

// How many threads take part in a pass over `bytes` of operands with `operations` (Program::CostPerElement
// times the elements)?
inline int ThreadsFor(double bytes, double operations) {
  constexpr double kBytesPerCycle = 32, kLanes = 16;
  return ThreadsWorth(bytes / kBytesPerCycle + operations / kLanes);
}

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_SHARING_H_
