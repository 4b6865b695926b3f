// Probing the host: caches and names from the operating system, else from the processor itself.
#ifndef OPSNN_DEVICE_HOST_H_
#define OPSNN_DEVICE_HOST_H_

#include <cstdint>
#include <string>

#include "device/measure.h"
#include "device/profile.h"

namespace opsnn::device {

struct HostCaches {
  int64_t l1d = 0, l2 = 0, l3 = 0;  // bytes; l2 per core, l3 shared (l2 again where there is no l3)
  std::string source;               // "sysfs", "cpuid", "assumed"
};
// `sysfs` is the folder with cpu0, cpu1, ...; normally /sys/devices/system/cpu.
HostCaches ProbeCaches(const std::string& sysfs);

// The profile from what was found; rates of 0 in `rates` are replaced by assumed ones.
DeviceProfile BuildHostProfile(const HostCaches& caches, int cores, const HostRates& rates);

// The file that remembers measured rates: one per CPU model, tier and number of cores, in the user's cache
// folder. "" when there is no such folder. Neither function ever fails loudly.
std::string RateCachePath();
bool ReadRates(const std::string& path, HostRates* rates);
void WriteRates(const std::string& path, const HostRates& rates);

// Measures now, whatever is cached, and remembers nothing.
HostRates MeasureNow();
// Measures now, whatever is cached, and remembers the result: `opsnn calibrate`. Later HostProfile() calls
// see it.
HostRates Recalibrate();

}  // namespace opsnn::device

#endif  // OPSNN_DEVICE_HOST_H_
