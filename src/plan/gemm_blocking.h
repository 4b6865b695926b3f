// Cache blocking of the host's gemm kernels: pure numbers, for whoever runs the loops.
//
// The loops, from outside in: mc rows of A, kc of K, a panel of B, then micro-tiles of mr x nr. The block of
// A (mc x kc) stays in the private L2 cache, B's panel (kc x nr) mostly in L1d while the block passes it.
#ifndef OPSNN_PLAN_GEMM_BLOCKING_H_
#define OPSNN_PLAN_GEMM_BLOCKING_H_

#include <cstddef>
#include <cstdint>

#include "device/profile.h"

namespace opsnn::plan {

struct MicroTile {
  int mr = 0, nr = 0;      // rows and columns of C that one micro-kernel call keeps in registers
  double step_cycles = 0;  // that the core takes for one step of k, at best; 0: not known
};

struct GemmShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  size_t a_size = 4;      // bytes of one packed element of A
  bool packed_b = false;  // B's panels lie ready: few rows of A to a block cost little
};

struct GemmBlocking {
  int64_t mc = 0, kc = 0;  // mc a multiple of mr unless it covers m whole
};

// kc depends on K and the core, not on threads or the other sides: a packed B fits every call. No sum depends
// on it: each block goes on from what the one before left in C. mc follows the size of L2. Threads share the
// tiles that the kernel makes of this.
GemmBlocking PlanGemmBlocking(const GemmShape& shape, MicroTile tile, const device::DeviceProfile& host);

// Floats of A, B and C that are read where they lie: as long as they leave an eighth of the core's own cache
// free, reading in place is never slower than packing (measured).
int64_t DirectFloats(const device::DeviceProfile& host);

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_GEMM_BLOCKING_H_
