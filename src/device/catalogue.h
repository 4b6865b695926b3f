// The NPUs of profiles.toml, which is embedded into the library.
#ifndef OPSNN_DEVICE_CATALOGUE_H_
#define OPSNN_DEVICE_CATALOGUE_H_

#include <string_view>
#include <vector>

#include "device/profile.h"

namespace opsnn::device {

const std::vector<DeviceProfile>& Npus();  // sorted by name
// By name with or without "Ascend", or by product line; case does not matter. The error lists what is known.
Result<DeviceProfile> FindNpu(std::string_view name);

}  // namespace opsnn::device

#endif  // OPSNN_DEVICE_CATALOGUE_H_
