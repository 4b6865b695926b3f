// What streams are asked for besides running tasks: attributes, failures, priorities.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "capi/acl_exports.h"
#include "capi/api/find_stream.h"
#include "capi/api/observers.h"
#include "capi/boundary.h"
#include "runtime/device.h"

namespace opsnn::capi {
namespace {

using runtime::Stream;

constexpr uint32_t kLeastPriority = 7;  // 0 is the highest
// Streams and events are limited by memory alone; programs are told the device's usual limits.
constexpr uint32_t kMostStreams = 2048, kMostEvents = 65536;

int Bad(const char* function, const std::string& message) {
  return Fail(function, ACL_ERROR_INVALID_PARAM, message);
}

int SetFailureMode(const char* function, Stream& stream, uint64_t mode) {
  if (mode == ACL_STOP_ON_FAILURE) {
    stream.StopOnFailure();
    return ACL_SUCCESS;
  }
  if (mode == ACL_CONTINUE_ON_FAILURE && !stream.stops_on_failure()) return ACL_SUCCESS;
  return Bad(function, StrFormat("the failure mode is %llu; allowed: 0 (go on) and 1 (stop), and 1 is final",
                                 static_cast<unsigned long long>(mode)));
}

// Overflows are not looked for: results hold infinities and NaN as IEEE 754 says.
int SetOverflowSwitch(const char* function, uint32_t flag) {
  if (flag == 0) return ACL_SUCCESS;
  if (flag != 1) return Bad(function, StrFormat("the overflow switch is %u; allowed: 0, 1", flag));
  return Fail(function, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "overflows are not detected here; results hold infinities and NaN, look at those");
}

int SetPriority(const char* function, Stream& stream, uint32_t priority) {
  if (priority > kLeastPriority) {
    return Bad(function, StrFormat("the priority is %u; allowed: 0 to %u", priority, kLeastPriority));
  }
  stream.set_priority(priority);
  return ACL_SUCCESS;
}

// Tags of streams, which only their owners read.
struct Tags {
  std::mutex mutex;
  std::map<int, uint32_t> by_stream;
};
Tags& CustomTags() {
  static auto* tags = new Tags;
  return *tags;
}

struct Configs {
  std::mutex mutex;
  std::set<const aclrtStreamConfigHandle*> live;
};
Configs& Live() {
  static auto* configs = new Configs;
  return *configs;
}

bool IsLive(const aclrtStreamConfigHandle* handle) {
  std::lock_guard lock(Live().mutex);
  return Live().live.count(handle) != 0;
}

}  // namespace

OPSNN_ACL_API aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtSetStreamFailureMode", stream, &s)) return code;
  return SetFailureMode("aclrtSetStreamFailureMode", *s, mode);
}

OPSNN_ACL_API aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtSetStreamOverflowSwitch", stream, &s)) return code;
  return SetOverflowSwitch("aclrtSetStreamOverflowSwitch", flag);
}

OPSNN_ACL_API aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t* flag) {
  std::shared_ptr<Stream> s;
  if (!flag) return FailNull("aclrtGetStreamOverflowSwitch", "flag");
  if (int code = FindStream("aclrtGetStreamOverflowSwitch", stream, &s)) return code;
  *flag = 0;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                               aclrtStreamAttrValue* value) {
  static const char* const kApi = "aclrtSetStreamAttribute";
  std::shared_ptr<Stream> s;
  if (!value) return FailNull(kApi, "value");
  if (int code = FindStream(kApi, stream, &s)) return code;
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      return SetFailureMode(kApi, *s, value->failureMode);
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      return SetOverflowSwitch(kApi, value->overflowSwitch);
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG: {
      std::lock_guard lock(CustomTags().mutex);
      CustomTags().by_stream[s->id()] = value->userCustomTag;
      return ACL_SUCCESS;
    }
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      if (value->cacheOpInfoSwitch == 0) return ACL_SUCCESS;
      return Fail(kApi, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "operators of models are not profiled here");
    case ACL_STREAM_ATTR_PRIORITY:
      return SetPriority(kApi, *s, value->streamPriority);
  }
  return Bad(kApi, StrFormat("stmAttrType is %d; allowed: 1 to 5", static_cast<int>(stmAttrType)));
}

OPSNN_ACL_API aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
                                               aclrtStreamAttrValue* value) {
  static const char* const kApi = "aclrtGetStreamAttribute";
  std::shared_ptr<Stream> s;
  if (!value) return FailNull(kApi, "value");
  if (int code = FindStream(kApi, stream, &s)) return code;
  switch (stmAttrType) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      value->failureMode = s->stops_on_failure() ? ACL_STOP_ON_FAILURE : ACL_CONTINUE_ON_FAILURE;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      value->overflowSwitch = 0;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG: {
      std::lock_guard lock(CustomTags().mutex);
      auto it = CustomTags().by_stream.find(s->id());
      value->userCustomTag = it == CustomTags().by_stream.end() ? 0 : it->second;
      return ACL_SUCCESS;
    }
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
      value->cacheOpInfoSwitch = 0;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
      value->streamPriority = s->priority();
      return ACL_SUCCESS;
  }
  return Bad(kApi, StrFormat("stmAttrType is %d; allowed: 1 to 5", static_cast<int>(stmAttrType)));
}

OPSNN_ACL_API aclError aclrtGetStreamAvailableNum(uint32_t* streamCount) {
  if (!streamCount) return FailNull("aclrtGetStreamAvailableNum", "streamCount");
  const size_t live = runtime::Streams().live();
  *streamCount = live < kMostStreams ? kMostStreams - static_cast<uint32_t>(live) : 0;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtGetEventAvailNum(uint32_t* eventCount) {
  if (!eventCount) return FailNull("aclrtGetEventAvailNum", "eventCount");
  *eventCount = kMostEvents;  // whatever is alive: an event here is a few words of memory
  return ACL_SUCCESS;
}

// ---- streams from a configuration
OPSNN_ACL_API aclrtStreamConfigHandle* aclrtCreateStreamConfigHandle() {
  auto handle = std::make_unique<aclrtStreamConfigHandle>();
  *handle = {};
  std::lock_guard lock(Live().mutex);
  Live().live.insert(handle.get());
  return handle.release();
}

OPSNN_ACL_API aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle* handle) {
  {
    std::lock_guard lock(Live().mutex);
    if (!Live().live.erase(handle)) {
      return Bad("aclrtDestroyStreamConfigHandle", "handle is null or not live (destroyed already?)");
    }
  }
  delete handle;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle* handle, aclrtStreamConfigAttr attr,
                                               const void* attrValue, size_t valueSize) {
  static const char* const kApi = "aclrtSetStreamConfigOpt";
  if (!attrValue) return FailNull(kApi, "attrValue");
  if (!IsLive(handle)) return Bad(kApi, "handle is null or not live (destroyed already?)");
  void* member = nullptr;
  size_t size = 0;
  switch (attr) {
    case ACL_RT_STREAM_WORK_ADDR_PTR:
      member = &handle->workptr;
      size = sizeof handle->workptr;
      break;
    case ACL_RT_STREAM_WORK_SIZE:
      member = &handle->workSize;
      size = sizeof handle->workSize;
      break;
    case ACL_RT_STREAM_FLAG:
      member = &handle->flag;
      size = sizeof handle->flag;
      break;
    case ACL_RT_STREAM_PRIORITY:
      member = &handle->priority;
      size = sizeof handle->priority;
      break;
    default:
      return Bad(kApi, StrFormat("attr is %d; allowed: 0 to 3", static_cast<int>(attr)));
  }
  if (valueSize != size) {
    return Bad(kApi, StrFormat("valueSize is %zu; allowed: %zu for attr %d", valueSize, size,
                               static_cast<int>(attr)));
  }
  std::memcpy(member, attrValue, size);
  return ACL_SUCCESS;
}

// Memory of the program's for the stream (workptr) is not needed here.
OPSNN_ACL_API aclError aclrtCreateStreamV2(aclrtStream* stream, const aclrtStreamConfigHandle* handle) {
  static const char* const kApi = "aclrtCreateStreamV2";
  if (!stream) return FailNull(kApi, "stream");
  *stream = nullptr;
  if (!IsLive(handle)) return Bad(kApi, "handle is null or not live (destroyed already?)");
  if (handle->priority > kLeastPriority) {
    return Bad(kApi, StrFormat("the priority is %u; allowed: 0 to %u", handle->priority, kLeastPriority));
  }
  auto made = runtime::CreateStream(handle->priority, static_cast<uint32_t>(handle->flag));
  if (!made.ok()) return Fail(kApi, ACL_ERROR_RT_CONTEXT_NULL, made.status().message());
  *stream = *made;
  TellStreamState(*stream, ACL_RT_STREAM_STATE_CREATE_POST);
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
