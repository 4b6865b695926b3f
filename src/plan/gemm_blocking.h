// Cache blocking of the host's gemm kernels: pure numbers, for whoever runs the loops.
//
// The loops, from outside in: nc columns of B, kc of K, mc rows of A, then micro-tiles of mr x nr. Packed A
// is mc x kc in the private L2 cache, packed B is kc x nc in the shared cache, an A micro-panel of mr x kc
// stays in L1d while B's panels stream past it.
#ifndef OPSNN_PLAN_GEMM_BLOCKING_H_
#define OPSNN_PLAN_GEMM_BLOCKING_H_

#include <cstddef>
#include <cstdint>

#include "device/profile.h"

namespace opsnn::plan {

struct MicroTile {
  int mr = 0, nr = 0;  // rows and columns of C that one micro-kernel call keeps in registers
};

struct GemmShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  size_t a_size = 4, b_size = 4;  // bytes of one packed element
  bool b_constant = false;        // B is packed ahead, once: packing costs nothing here
};

struct GemmBlocking {
  int64_t mc = 0, nc = 0, kc = 0;  // mc a multiple of mr and nc of nr unless they cover m or n whole
  // Is packing worth it? A panel is packed once and read once per micro-panel of the other side.
  bool pack_a = true, pack_b = true;
  // Everything fits L1d and packing would cost as much as it saves: use the kernel that reads A and B in
  // place.
  bool small = false;
};

// kc depends on the shape alone (not on threads), so that sums are split the same way on any number of
// threads.
GemmBlocking PlanGemmBlocking(const GemmShape& shape, MicroTile tile, int threads,
                              const device::DeviceProfile& host);

}  // namespace opsnn::plan

#endif  // OPSNN_PLAN_GEMM_BLOCKING_H_
