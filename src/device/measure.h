// The short calibration of the host: what one core and all cores reach, for the active tier. Under 100 ms.
#ifndef OPSNN_DEVICE_MEASURE_H_
#define OPSNN_DEVICE_MEASURE_H_

#include <cstdint>

namespace opsnn::device {

struct HostRates {
  double clock_ghz = 0;        // of scalar code; the unit of all bytes-per-cycle rates
  double fma_gflops = 0;       // f32, one core
  double l1d_gbps = 0;         // read, one core, from L1d
  double l2_gbps = 0;          // read, one core, from the private L2 cache
  double l3_gbps = 0;          // read, one core, from the shared cache
  double dram_read_gbps = 0;   // read, one core, from memory
  double dram_copy_gbps = 0;   // read + write with streaming stores, one core
  double dram_total_gbps = 0;  // read, all cores together
  double sync_us = 0;          // an empty ParallelFor over all cores while they are awake
  double cross_line_ns = 0;    // writing a line that another core has read since, over one that none has
  double shared_mib = 0;       // of the shared cache, what one core can count on beside its neighbours
  // Rates of several cores are 0 where somebody else had the pool of threads all the time.
  bool together = true;
};

// Buffer sizes are chosen inside the caches given. Waits some 50 ms for the pool of threads.
HostRates MeasureHost(int64_t l1d_bytes, int64_t l2_bytes, int64_t l3_bytes, int cores);
// clock_ghz and fma_gflops alone, in some 0.1 ms: what nobody should have to guess, as cores with the same
// instructions differ by a factor of two.
HostRates MeasureCore();

}  // namespace opsnn::device

#endif  // OPSNN_DEVICE_MEASURE_H_
