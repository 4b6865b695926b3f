#include "capi/api/observers.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "capi/acl_exports.h"
#include "capi/boundary.h"
#include "runtime/callbacks.h"
#include "runtime/device.h"

namespace opsnn::capi {
namespace {

int Bad(const char* function, const std::string& message) {
  return Fail(function, ACL_ERROR_INVALID_PARAM, message);
}

// Functions by the name that they were registered under.
template <typename Function>
class Named {
 public:
  // A null function ends the registration.
  int Register(const char* api, const char* name, Function function, void* args) {
    if (!name || !*name) return Bad(api, "regName is null or empty");
    std::lock_guard lock(mutex_);
    if (!function) {
      return functions_.erase(name) ? int{ACL_SUCCESS}
                                    : Bad(api, StrFormat("regName \"%s\" is not registered", name));
    }
    if (!functions_.emplace(name, std::pair(function, args)).second) {
      return Bad(api, StrFormat("regName \"%s\" is registered already", name));
    }
    return ACL_SUCCESS;
  }
  // Calls them all, without the lock: they may register others.
  template <typename Call>
  void Tell(Call call) {
    std::vector<std::pair<Function, void*>> all;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [name, f] : functions_) all.push_back(f);
    }
    for (const auto& [function, args] : all) {
      // What happened is told to the others all the same, and the call that tells of it goes on.
      const Status status = runtime::CallProgram("the registered callback", [&] { call(function, args); });
      if (!status.ok()) Fail("callback", status);
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::pair<Function, void*>> functions_;
};

auto& StreamObservers() {
  static auto* all = new Named<aclrtStreamStateCallback>;
  return *all;
}
auto& DeviceObservers() {
  static auto* all = new Named<aclrtDeviceStateCallback>;
  return *all;
}
auto& AbortObservers() {
  static auto* all = new Named<aclrtDeviceTaskAbortCallback>;
  return *all;
}

// Functions of aclInit and aclFinalize, in the order of their registration.
template <typename Function>
struct Entry {
  aclRegisterCallbackType type;
  Function function;
  void* data;
};
struct Library {
  std::mutex mutex;
  std::optional<std::string> config;  // set while the library is initialised
  std::vector<Entry<aclInitCallbackFunc>> init;
  std::vector<Entry<aclFinalizeCallbackFunc>> finalize;
};
Library& TheLibrary() {
  static auto* library = new Library;
  return *library;
}

int CheckType(const char* api, aclRegisterCallbackType type, bool has_function) {
  if (!has_function) return FailNull(api, "cbFunc");
  if ((type < ACL_REG_TYPE_ACL_MODEL || type > ACL_REG_TYPE_ACL_RETR) && type != ACL_REG_TYPE_OTHER) {
    return Bad(api, StrFormat("type is %d; allowed: 0 to 7, 65535", static_cast<int>(type)));
  }
  return ACL_SUCCESS;
}

// What a registered function answers; an exception out of it is a failure of `api`.
template <typename Call>
int CodeOf(const char* api, Call call) {
  int code = ACL_SUCCESS;
  const Status status = runtime::CallProgram("the registered callback", [&] { code = call(); });
  return status.ok() ? code : Fail(api, ACL_ERROR_RT_INTERNAL_ERROR, status.message());
}

template <typename Function>
int Unregister(const char* api, std::vector<Entry<Function>>& entries, aclRegisterCallbackType type,
               Function function) {
  if (int code = CheckType(api, type, function != nullptr)) return code;
  std::lock_guard lock(TheLibrary().mutex);
  auto it = std::find_if(entries.begin(), entries.end(),
                         [&](const auto& e) { return e.type == type && e.function == function; });
  if (it == entries.end()) return Bad(api, "cbFunc is not registered for this type");
  entries.erase(it);
  return ACL_SUCCESS;
}

}  // namespace

void TellStreamState(aclrtStream stream, aclrtStreamState state) {
  StreamObservers().Tell([&](aclrtStreamStateCallback f, void* args) { f(stream, state, args); });
}

void TellDeviceState(int32_t device, aclrtDeviceState state) {
  DeviceObservers().Tell([&](aclrtDeviceStateCallback f, void* args) { f(device, state, args); });
}

int TellInit(const std::string& config) {
  std::vector<Entry<aclInitCallbackFunc>> all;
  {
    std::lock_guard lock(TheLibrary().mutex);
    TheLibrary().config = config;
    all = TheLibrary().init;
  }
  for (const auto& e : all) {
    if (int code = CodeOf("aclInit", [&] { return e.function(config.c_str(), config.size(), e.data); }))
      return code;
  }
  return ACL_SUCCESS;
}

int TellFinalize() {
  std::vector<Entry<aclFinalizeCallbackFunc>> all;
  {
    std::lock_guard lock(TheLibrary().mutex);
    TheLibrary().config.reset();
    all = TheLibrary().finalize;
  }
  for (const auto& e : all) {
    if (int code = CodeOf("aclFinalize", [&] { return e.function(e.data); })) return code;
  }
  return ACL_SUCCESS;
}

// Streams that programs make; the default stream of a device has no handle of its own.
OPSNN_ACL_API aclError aclrtRegStreamStateCallback(const char* regName, aclrtStreamStateCallback callback,
                                                   void* args) {
  return StreamObservers().Register("aclrtRegStreamStateCallback", regName, callback, args);
}

OPSNN_ACL_API aclError aclrtRegDeviceStateCallback(const char* regName, aclrtDeviceStateCallback callback,
                                                   void* args) {
  return DeviceObservers().Register("aclrtRegDeviceStateCallback", regName, callback, args);
}

OPSNN_ACL_API aclError aclrtSetDeviceTaskAbortCallback(const char* regName,
                                                       aclrtDeviceTaskAbortCallback callback, void* args) {
  return AbortObservers().Register("aclrtSetDeviceTaskAbortCallback", regName, callback, args);
}

// Drops what is queued on the device's streams and waits for what runs; the timeout is milliseconds, 0 for
// none.
OPSNN_ACL_API aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  static const char* const kApi = "aclrtDeviceTaskAbort";
  if (Status s = runtime::CheckDevice(deviceId); !s.ok()) {
    return Fail(kApi, ACL_ERROR_RT_INVALID_DEVICEID, s.message());
  }
  runtime::Deadline deadline;
  if (timeout) deadline = runtime::Clock::now() + std::chrono::milliseconds(timeout);
  const auto tell = [&](aclrtDeviceTaskAbortStage stage) {
    AbortObservers().Tell(
        [&](aclrtDeviceTaskAbortCallback f, void* args) { f(deviceId, stage, timeout, args); });
  };
  tell(ACL_RT_DEVICE_TASK_ABORT_PRE);
  if (!runtime::AbortAllStreams(deviceId, deadline)) {
    return Fail(kApi, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "a task that runs did not end in time");
  }
  tell(ACL_RT_DEVICE_TASK_ABORT_POST);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc,
                                               void* userData) {
  static const char* const kApi = "aclInitCallbackRegister";
  if (int code = CheckType(kApi, type, cbFunc != nullptr)) return code;
  std::optional<std::string> config;
  {
    std::lock_guard lock(TheLibrary().mutex);
    TheLibrary().init.push_back({type, cbFunc, userData});
    config = TheLibrary().config;
  }
  // After aclInit it is called at once.
  return config ? CodeOf(kApi, [&] { return cbFunc(config->c_str(), config->size(), userData); })
                : int{ACL_SUCCESS};
}

OPSNN_ACL_API aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc) {
  return Unregister("aclInitCallbackUnRegister", TheLibrary().init, type, cbFunc);
}

OPSNN_ACL_API aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type,
                                                   aclFinalizeCallbackFunc cbFunc, void* userData) {
  static const char* const kApi = "aclFinalizeCallbackRegister";
  if (int code = CheckType(kApi, type, cbFunc != nullptr)) return code;
  std::lock_guard lock(TheLibrary().mutex);
  TheLibrary().finalize.push_back({type, cbFunc, userData});
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type,
                                                     aclFinalizeCallbackFunc cbFunc) {
  return Unregister("aclFinalizeCallbackUnRegister", TheLibrary().finalize, type, cbFunc);
}

}  // namespace opsnn::capi
