// The host as a profile: what was probed and measured.
#ifndef OPSNN_DEVICE_HOST_H_
#define OPSNN_DEVICE_HOST_H_

#include <cstdint>
#include <string>

#include "device/measure.h"
#include "device/profile.h"
#include "isa/caches.h"

namespace opsnn::device {

// The profile from what was found; rates of 0 in `rates` are replaced by assumed ones.
DeviceProfile BuildHostProfile(const isa::Caches& caches, int cores, const HostRates& rates);

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
