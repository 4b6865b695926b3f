// Time limits, limits of resources, and what a device says of itself.
#include "capi/api/limits.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "base/knobs.h"
#include "base/parallel.h"
#include "capi/acl_exports.h"
#include "capi/api/find_stream.h"
#include "capi/boundary.h"
#include "device/profile.h"
#include "runtime/device.h"
#include "runtime/memory.h"

namespace opsnn::capi {
namespace {

int Bad(const char* function, const std::string& message) {
  return Fail(function, ACL_ERROR_INVALID_PARAM, message);
}

int CheckDevice(const char* function, int64_t device) {
  const Status s = runtime::CheckDevice(device > INT32_MAX ? -1 : static_cast<int>(device));
  return s.ok() ? int{ACL_SUCCESS} : Fail(function, ACL_ERROR_RT_INVALID_DEVICEID, s.message());
}

// ---- how long an operator may take: kept for the program, as no operator here hangs or is cut off
constexpr uint64_t kInterval = 4294967;  // microseconds: the longest time, 1091 s, is 254 of them
constexpr uint64_t kLongest = kInterval * 254;
std::atomic<uint64_t> execute_timeout{kLongest};
std::atomic<uint32_t> wait_timeout{0};  // seconds; 0: none

uint64_t SetExecuteTimeout(uint64_t microseconds) {
  uint64_t actual = kLongest;
  if (microseconds > 0 && microseconds < kLongest)
    actual = (microseconds + kInterval - 1) / kInterval * kInterval;
  execute_timeout = actual;
  return actual;
}

// ---- limits of stacks and printing, in bytes
struct Limit {
  std::atomic<size_t> value;
  size_t lo, hi, step;  // rounded up to steps
};
Limit limits[] = {{{1152}, 0, SIZE_MAX / 2, 128},
                  {{1024}, 0, SIZE_MAX / 2, 128},
                  {{32768}, 0, 196608, 16384},
                  {{32768}, 1024, 67108864, 8},
                  {{2097152}, 1048576, 67108864, 8}};

int FindLimit(const char* function, aclrtDeviceLimit limit, Limit** found) {
  if (limit < 0 || limit >= static_cast<int>(std::size(limits))) {
    return Bad(function, StrFormat("limit is %d; allowed: 0 to 4", static_cast<int>(limit)));
  }
  *found = &limits[limit];
  return ACL_SUCCESS;
}

// ---- cores: of the device, of a stream, of a thread's chosen stream
constexpr int kCoreTypes = 2;
using Cores = uint32_t[kCoreTypes];  // 0: not limited

struct CoreLimits {
  std::mutex mutex;
  std::map<int, Cores> devices, streams;
};
CoreLimits& Limits() {
  static auto* all = new CoreLimits;
  return *all;
}
thread_local int chosen_stream = -1;

int64_t Field(device::Field f) {
  const auto profile = device::FindProfile(GetKnobs().profile);
  return profile.ok() ? static_cast<int64_t>((*profile)[f]) : 0;
}
// What the chosen profile has; the host's cores are both.
uint32_t AllCores(aclrtDevResLimitType type) {
  if (GetKnobs().profile == "host") return static_cast<uint32_t>(NumThreads());
  return static_cast<uint32_t>(
      Field(type == ACL_RT_DEV_RES_CUBE_CORE ? device::Field::k_cores : device::Field::k_vector_cores));
}

int CheckCores(const char* function, aclrtDevResLimitType type, uint32_t value) {
  if (type != ACL_RT_DEV_RES_CUBE_CORE && type != ACL_RT_DEV_RES_VECTOR_CORE) {
    return Bad(function, StrFormat("type is %d; allowed: 0, 1", static_cast<int>(type)));
  }
  if (value == 0 || value > AllCores(type)) {
    return Bad(function,
               StrFormat("value is %u; allowed: 1 to %u, the cores of the device", value, AllCores(type)));
  }
  return ACL_SUCCESS;
}

uint32_t CoresOfDevice(CoreLimits& all, int device, aclrtDevResLimitType type) {
  auto it = all.devices.find(device);
  return it != all.devices.end() && it->second[type] ? it->second[type] : AllCores(type);
}

}  // namespace

std::chrono::milliseconds EventWaitTimeout() { return std::chrono::seconds(wait_timeout.load()); }

OPSNN_ACL_API aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  wait_timeout = timeout;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  SetExecuteTimeout(uint64_t{timeout} * 1000000);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  SetExecuteTimeout(uint64_t{timeout} * 1000);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  if (!actualTimeout) return FailNull("aclrtSetOpExecuteTimeOutV2", "actualTimeout");
  *actualTimeout = SetExecuteTimeout(timeout);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtGetOpTimeOutInterval(uint64_t* interval) {
  if (!interval) return FailNull("aclrtGetOpTimeOutInterval", "interval");
  *interval = kInterval;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtGetOpExecuteTimeout(uint32_t* const timeoutMs) {
  if (!timeoutMs) return FailNull("aclrtGetOpExecuteTimeout", "timeoutMs");
  *timeoutMs = static_cast<uint32_t>(execute_timeout / 1000);
  return ACL_SUCCESS;
}

// Kept for the program; kernels of the host need neither stacks nor space for printing.
OPSNN_ACL_API aclError aclrtDeviceSetLimit(aclrtDeviceLimit limit, size_t value) {
  static const char* const kApi = "aclrtDeviceSetLimit";
  Limit* l = nullptr;
  if (int code = FindLimit(kApi, limit, &l)) return code;
  if (value < l->lo || value > l->hi) {
    return Bad(kApi, StrFormat("value is %zu; allowed: %zu to %zu", value, l->lo, l->hi));
  }
  size_t rounded = (value + l->step - 1) / l->step * l->step;
  if (limit == ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE && rounded < 32768) rounded = 32768;  // the least there is
  l->value = rounded;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtDeviceGetLimit(aclrtDeviceLimit limit, size_t* value) {
  static const char* const kApi = "aclrtDeviceGetLimit";
  Limit* l = nullptr;
  if (!value) return FailNull(kApi, "value");
  if (int code = FindLimit(kApi, limit, &l)) return code;
  *value = l->value;
  return ACL_SUCCESS;
}

// ---- cores. The limits are kept and answered; kernels here share the threads of the process whatever they
// say.
OPSNN_ACL_API aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t* value) {
  static const char* const kApi = "aclrtGetDeviceResLimit";
  if (!value) return FailNull(kApi, "value");
  if (int code = CheckDevice(kApi, deviceId)) return code;
  if (int code = CheckCores(kApi, type, 1)) return code;
  std::lock_guard lock(Limits().mutex);
  *value = CoresOfDevice(Limits(), deviceId, type);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value) {
  static const char* const kApi = "aclrtSetDeviceResLimit";
  if (int code = CheckDevice(kApi, deviceId)) return code;
  if (int code = CheckCores(kApi, type, value)) return code;
  std::lock_guard lock(Limits().mutex);
  Limits().devices[deviceId][type] = value;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtResetDeviceResLimit(int32_t deviceId) {
  if (int code = CheckDevice("aclrtResetDeviceResLimit", deviceId)) return code;
  std::lock_guard lock(Limits().mutex);
  Limits().devices.erase(deviceId);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type,
                                              uint32_t* value) {
  static const char* const kApi = "aclrtGetStreamResLimit";
  std::shared_ptr<runtime::Stream> s;
  if (!value) return FailNull(kApi, "value");
  if (int code = CheckCores(kApi, type, 1)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  std::lock_guard lock(Limits().mutex);
  auto it = Limits().streams.find(s->id());
  *value = it != Limits().streams.end() && it->second[type] ? it->second[type]
                                                            : CoresOfDevice(Limits(), s->device(), type);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value) {
  static const char* const kApi = "aclrtSetStreamResLimit";
  std::shared_ptr<runtime::Stream> s;
  if (int code = CheckCores(kApi, type, value)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  std::lock_guard lock(Limits().mutex);
  Limits().streams[s->id()][type] = value;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtResetStreamResLimit(aclrtStream stream) {
  std::shared_ptr<runtime::Stream> s;
  if (int code = FindStream("aclrtResetStreamResLimit", stream, &s)) return code;
  std::lock_guard lock(Limits().mutex);
  Limits().streams.erase(s->id());
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtUseStreamResInCurrentThread(aclrtStream stream) {
  std::shared_ptr<runtime::Stream> s;
  if (int code = FindStream("aclrtUseStreamResInCurrentThread", stream, &s)) return code;
  chosen_stream = s->id();
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream) {
  std::shared_ptr<runtime::Stream> s;
  if (int code = FindStream("aclrtUnuseStreamResInCurrentThread", stream, &s)) return code;
  if (chosen_stream == s->id()) chosen_stream = -1;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t* value) {
  static const char* const kApi = "aclrtGetResInCurrentThread";
  if (!value) return FailNull(kApi, "value");
  if (int code = CheckCores(kApi, type, 1)) return code;
  auto context = runtime::CurrentContext();
  if (!context) return Fail(kApi, ACL_ERROR_RT_CONTEXT_NULL, "no device is set; call aclrtSetDevice first");
  std::lock_guard lock(Limits().mutex);
  auto it = Limits().streams.find(chosen_stream);
  *value = it != Limits().streams.end() && it->second[type] ? it->second[type]
                                                            : CoresOfDevice(Limits(), context->device, type);
  return ACL_SUCCESS;
}

// ---- what a device is
OPSNN_ACL_API aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  static const char* const kApi = "aclrtGetDeviceInfo";
  if (!value) return FailNull(kApi, "value");
  if (int code = CheckDevice(kApi, deviceId)) return code;
  switch (attr) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      *value = NumThreads();
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      *value = AllCores(ACL_RT_DEV_RES_CUBE_CORE);
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      *value = AllCores(ACL_RT_DEV_RES_VECTOR_CORE);
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      *value = static_cast<int64_t>(runtime::MemoryLimit());
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      *value = Field(device::Field::k_l2_bytes);
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
      *value = deviceId;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_IS_VIRTUAL:
      *value = 0;
      return ACL_SUCCESS;
    default:
      break;
  }
  // Documented for what a device does not have: threads and blocks of the thread-parallel model.
  if (attr >= ACL_DEV_ATTR_WARP_SIZE && attr <= ACL_DEV_ATTR_MAX_BLOCK_DIM_Z) {
    *value = 0;
    return ACL_SUCCESS;
  }
  return Fail(kApi, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              StrFormat("attr is %d, which this device has no value for", static_cast<int>(attr)));
}

OPSNN_ACL_API aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  static const char* const kApi = "aclGetDeviceCapability";
  if (!value) return FailNull(kApi, "value");
  if (int code = CheckDevice(kApi, deviceId)) return code;
  switch (deviceInfo) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
      *value = AllCores(ACL_RT_DEV_RES_CUBE_CORE);
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
      *value = AllCores(ACL_RT_DEV_RES_VECTOR_CORE);
      return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
      *value = Field(device::Field::k_l2_bytes);
      return ACL_SUCCESS;
    default:
      return Bad(kApi, StrFormat("deviceInfo is %d; allowed: 0 to 2", static_cast<int>(deviceInfo)));
  }
}

// The two features are about the device's own processors.
OPSNN_ACL_API aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
                                                int32_t* value) {
  static const char* const kApi = "aclrtGetDeviceCapability";
  if (!value) return FailNull(kApi, "value");
  if (int code = CheckDevice(kApi, deviceId)) return code;
  if (devFeatureType != ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV &&
      devFeatureType != ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV) {
    return Bad(kApi, StrFormat("devFeatureType is %d; allowed: 1, 21", static_cast<int>(devFeatureType)));
  }
  *value = 0;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  static const char* const kApi = "aclGetCannAttribute";
  if (!value) return FailNull(kApi, "value");
  if (cannAttr < ACL_CANN_ATTR_INF_NAN || cannAttr > ACL_CANN_ATTR_JIT_COMPILE) {
    return Bad(kApi, StrFormat("cannAttr is %d; allowed: 0 to 2", static_cast<int>(cannAttr)));
  }
  *value = cannAttr != ACL_CANN_ATTR_JIT_COMPILE;  // nothing is compiled while running
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  static constexpr aclCannAttr kSupported[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16};
  if (!cannAttrList || !num)
    return FailNull("aclGetCannAttributeList", cannAttrList ? "num" : "cannAttrList");
  *cannAttrList = kSupported;
  *num = std::size(kSupported);
  return ACL_SUCCESS;
}

// Arithmetic is that of IEEE 754.
OPSNN_ACL_API aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode) {
  static const char* const kApi = "aclrtSetDeviceSatMode";
  if (mode == ACL_RT_OVERFLOW_MODE_INFNAN) return ACL_SUCCESS;
  if (mode != ACL_RT_OVERFLOW_MODE_SATURATION) {
    return Bad(kApi, StrFormat("mode is %d; allowed: 0, 1", static_cast<int>(mode)));
  }
  return Fail(kApi, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "results do not saturate here; mode 1 (Inf and NaN) is what there is");
}
OPSNN_ACL_API aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode* mode) {
  if (!mode) return FailNull("aclrtGetDeviceSatMode", "mode");
  *mode = ACL_RT_OVERFLOW_MODE_INFNAN;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t* status) {
  static const char* const kApi = "aclrtDevicePeerAccessStatus";
  if (!status) return FailNull(kApi, "status");
  if (int code = CheckDevice(kApi, deviceId)) return code;
  if (int code = CheckDevice(kApi, peerDeviceId)) return code;
  *status = 1;  // all devices are one memory
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t* const userDevId) {
  static const char* const kApi = "aclrtGetUserDevIdByPhyDevId";
  if (!userDevId) return FailNull(kApi, "userDevId");
  if (int code = CheckDevice(kApi, phyDevId)) return code;
  *userDevId = phyDevId;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t* const phyDevId) {
  static const char* const kApi = "aclrtGetPhyDevIdByUserDevId";
  if (!phyDevId) return FailNull(kApi, "phyDevId");
  if (int code = CheckDevice(kApi, userDevId)) return code;
  *phyDevId = userDevId;
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
