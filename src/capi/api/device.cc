// Devices, contexts and what programs ask about them.
#include "runtime/device.h"

#include <algorithm>
#include <atomic>

#include "base/knobs.h"
#include "capi/acl_exports.h"
#include "capi/api/observers.h"
#include "capi/boundary.h"
#include "runtime/check.h"
#include "runtime/memory.h"

namespace opsnn::capi {
namespace {

int FailDevice(const char* function, const Status& s) {
  return s.ok() ? ACL_SUCCESS : Fail(function, ACL_ERROR_RT_INVALID_DEVICEID, s.message());
}

int FailContext(const char* function, const Status& s) {
  if (s.ok()) return ACL_SUCCESS;
  return Fail(function, s.code() == Code::kNull ? ACL_ERROR_INVALID_PARAM : ACL_ERROR_RT_CONTEXT_NULL,
              s.message());
}

int NoDevice(const char* function) {
  return Fail(function, ACL_ERROR_RT_CONTEXT_NULL,
              "no device is set in this process; call aclrtSetDevice first");
}

int Reset(const char* function, int32_t device, bool force) {
  if (Status s = runtime::CheckDevice(device); !s.ok()) return FailDevice(function, s);
  TellDeviceState(device, ACL_RT_DEVICE_STATE_RESET_PRE);
  const Status s = runtime::ResetDevice(device, force);
  if (s.ok()) TellDeviceState(device, ACL_RT_DEVICE_STATE_RESET_POST);
  return FailDevice(function, s);
}

// A device is the same number under all of its names.
int SameNumber(const char* function, int32_t from, int32_t* to) {
  if (!to) return FailNull(function, "the result");
  if (Status s = runtime::CheckDevice(from); !s.ok()) return FailDevice(function, s);
  *to = from;
  return ACL_SUCCESS;
}

}  // namespace

OPSNN_ACL_API aclError aclrtSetDevice(int32_t deviceId) {
  static const char* const kApi = "aclrtSetDevice";
  if (Status s = runtime::CheckDevice(deviceId); !s.ok()) return FailDevice(kApi, s);
  TellDeviceState(deviceId, ACL_RT_DEVICE_STATE_SET_PRE);
  const Status s = runtime::SetDevice(deviceId);
  if (s.ok()) TellDeviceState(deviceId, ACL_RT_DEVICE_STATE_SET_POST);
  return FailDevice(kApi, s);
}

OPSNN_ACL_API aclError aclrtResetDevice(int32_t deviceId) {
  if (runtime::Checks(runtime::kCheckSync)) runtime::NoteAllDone();  // it waits for the device's work
  return Reset("aclrtResetDevice", deviceId, false);
}

OPSNN_ACL_API aclError aclrtResetDeviceForce(int32_t deviceId) {
  return Reset("aclrtResetDeviceForce", deviceId, true);
}

OPSNN_ACL_API aclError aclrtGetDevice(int32_t* deviceId) {
  if (!deviceId) return FailNull("aclrtGetDevice", "deviceId");
  auto context = runtime::CurrentContext();
  if (!context) return NoDevice("aclrtGetDevice");
  *deviceId = context->device;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtGetDeviceCount(uint32_t* count) {
  if (!count) return FailNull("aclrtGetDeviceCount", "count");
  *count = static_cast<uint32_t>(runtime::DeviceCount());
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  if (!runMode) return FailNull("aclrtGetRunMode", "runMode");
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtSetTsDevice(aclrtTsId tsId) {
  if (tsId < ACL_TS_ID_AICORE || tsId >= ACL_TS_ID_RESERVED) {
    return Fail("aclrtSetTsDevice", ACL_ERROR_INVALID_PARAM,
                StrFormat("tsId is %d; allowed: 0, 1", int{tsId}));
  }
  return ACL_SUCCESS;
}

OPSNN_ACL_API const char* aclrtGetSocName() {
  // The profile that the capacity queries answer for; without one it is this machine, under its own name.
  static const std::string name = GetKnobs().profile == "host" ? "Host_x86_64" : GetKnobs().profile;
  return name.c_str();
}

OPSNN_ACL_API aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  if (!deviceStatus) return FailNull("aclrtQueryDeviceStatus", "deviceStatus");
  if (Status s = runtime::CheckDevice(deviceId); !s.ok()) return FailDevice("aclrtQueryDeviceStatus", s);
  *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  if (!context) return FailNull("aclrtCreateContext", "context");
  auto handle = runtime::CreateContext(deviceId);
  if (!handle.ok()) return FailDevice("aclrtCreateContext", handle.status());
  *context = *handle;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtDestroyContext(aclrtContext context) {
  return FailContext("aclrtDestroyContext", runtime::DestroyContext(context));
}

OPSNN_ACL_API aclError aclrtSetCurrentContext(aclrtContext context) {
  return FailContext("aclrtSetCurrentContext", runtime::SetCurrentContext(context));
}

OPSNN_ACL_API aclError aclrtGetCurrentContext(aclrtContext* context) {
  if (!context) return FailNull("aclrtGetCurrentContext", "context");
  *context = runtime::CurrentContextHandle();
  return *context ? ACL_SUCCESS : NoDevice("aclrtGetCurrentContext");
}

OPSNN_ACL_API aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  if (!active) return FailNull("aclrtGetPrimaryCtxState", "active");
  if (Status s = runtime::CheckDevice(deviceId); !s.ok()) return FailDevice("aclrtGetPrimaryCtxState", s);
  if (flags) *flags = 0;
  *active = runtime::IsActive(deviceId) ? 1 : 0;
  return ACL_SUCCESS;
}

// System parameters are kept per process; results here are deterministic whatever they say.
namespace {
std::atomic<int64_t> sys_params[4];
int SysParam(const char* function, aclSysParamOpt opt, std::atomic<int64_t>** slot) {
  if (opt < 0 || opt >= static_cast<int>(std::size(sys_params))) {
    return Fail(function, ACL_ERROR_INVALID_PARAM, StrFormat("opt is %d; allowed: 0 to 3", int{opt}));
  }
  *slot = &sys_params[opt];
  return ACL_SUCCESS;
}
int GetSysParam(const char* function, aclSysParamOpt opt, int64_t* value) {
  if (!value) return FailNull(function, "value");
  std::atomic<int64_t>* slot = nullptr;
  if (int code = SysParam(function, opt, &slot)) return code;
  *value = *slot;
  return ACL_SUCCESS;
}
int SetSysParam(const char* function, aclSysParamOpt opt, int64_t value) {
  std::atomic<int64_t>* slot = nullptr;
  if (int code = SysParam(function, opt, &slot)) return code;
  *slot = value;
  return ACL_SUCCESS;
}
}  // namespace

OPSNN_ACL_API aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return GetSysParam("aclrtCtxGetSysParamOpt", opt, value);
}
OPSNN_ACL_API aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return SetSysParam("aclrtCtxSetSysParamOpt", opt, value);
}
OPSNN_ACL_API aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return GetSysParam("aclrtGetSysParamOpt", opt, value);
}
OPSNN_ACL_API aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return SetSysParam("aclrtSetSysParamOpt", opt, value);
}

// All devices are one memory: any reaches any other.
OPSNN_ACL_API aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId,
                                                int32_t peerDeviceId) {
  if (!canAccessPeer) return FailNull("aclrtDeviceCanAccessPeer", "canAccessPeer");
  for (int32_t id : {deviceId, peerDeviceId}) {
    if (Status s = runtime::CheckDevice(id); !s.ok()) return FailDevice("aclrtDeviceCanAccessPeer", s);
  }
  *canAccessPeer = deviceId != peerDeviceId;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  static_cast<void>(flags);
  return FailDevice("aclrtDeviceEnablePeerAccess", runtime::CheckDevice(peerDeviceId));
}

OPSNN_ACL_API aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  return FailDevice("aclrtDeviceDisablePeerAccess", runtime::CheckDevice(peerDeviceId));
}

OPSNN_ACL_API aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  if (!free || !total) return FailNull("aclrtGetMemInfo", free ? "total" : "free");
  // All kinds of memory are the host's.
  if (const int kind = static_cast<int>(attr); kind < ACL_DDR_MEM || kind > ACL_MEM_P2P_HUGE1G) {
    return Fail(
        "aclrtGetMemInfo", ACL_ERROR_INVALID_PARAM,
        StrFormat("attr is %d; allowed: an aclrtMemAttr, %d to %d", kind, ACL_DDR_MEM, ACL_MEM_P2P_HUGE1G));
  }
  *total = runtime::MemoryLimit();
  *free = *total - std::min(*total, runtime::GetMemoryUse().bytes);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority) {
  if (leastPriority) *leastPriority = 7;
  if (greatestPriority) *greatestPriority = 0;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* const logicDevId) {
  return SameNumber("aclrtGetLogicDevIdByUserDevId", userDevid, logicDevId);
}
OPSNN_ACL_API aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t* const userDevid) {
  return SameNumber("aclrtGetUserDevIdByLogicDevId", logicDevId, userDevid);
}
OPSNN_ACL_API aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t* const logicDevId) {
  return SameNumber("aclrtGetLogicDevIdByPhyDevId", phyDevId, logicDevId);
}
OPSNN_ACL_API aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t* const phyDevId) {
  return SameNumber("aclrtGetPhyDevIdByLogicDevId", logicDevId, phyDevId);
}

}  // namespace opsnn::capi
