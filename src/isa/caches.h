// The data caches of the processor: what blocks of kernels are cut to. (C's sysconf counts the shared cache
// once per core on some machines.)
#ifndef OPSNN_ISA_CACHES_H_
#define OPSNN_ISA_CACHES_H_

#include <cstdint>
#include <string>

namespace opsnn::isa {

struct Caches {
  int64_t l1d = 0, l2 = 0, l3 = 0;  // bytes; l2 per core, l3 shared (l2 again where there is no l3)
  std::string source;               // "sysfs", "cpuid", "assumed"
};
// `sysfs` is the folder with cpu0, cpu1, ...; normally /sys/devices/system/cpu.
Caches ProbeCaches(const std::string& sysfs);

// Of this machine; probed once.
const Caches& HostCaches();

}  // namespace opsnn::isa

#endif  // OPSNN_ISA_CACHES_H_
