// When a product is worth more than one thread.
#include "base/pool_awake.h"
#include "isa/tier.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/peak.h"

namespace opsnn::gemm {

int ThreadsFor(int64_t work, double per_lane, int64_t bytes) {
  constexpr double kBytesPerCycle = 32;  // from a core's own cache
  if (ThreadsAvailable() == 1) return 1;
  const MicroTile tile = TileFor(isa::ActiveTier());
  const double per_cycle = tile.mr * tile.nr * per_lane / StepCycles();
  return ThreadsWorth(
      std::max(static_cast<double>(work) / per_cycle, static_cast<double>(bytes) / kBytesPerCycle));
}

void ForEach(int64_t n, int threads, FunctionRef<void(int64_t)> fn) {
  if (threads == 1 || n == 1) {
    for (int64_t i = 0; i < n; ++i) fn(i);
  } else {
    ParallelFor(n, [&](int64_t i, int) { fn(i); });
  }
}

}  // namespace opsnn::gemm
