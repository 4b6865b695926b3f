// Notifies, plain and counting, and waits for values in memory. Shared notifies are known inside this
// process.
#include "runtime/notify.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "capi/acl_exports.h"
#include "capi/api/find_stream.h"
#include "capi/boundary.h"
#include "runtime/check.h"
#include "runtime/device.h"
#include "runtime/memory.h"

namespace opsnn::capi {
namespace {

using runtime::Notify;
using runtime::Stream;
using std::chrono::milliseconds;

auto& Notifies() {
  static auto* table = new runtime::HandleTable<Notify, runtime::HandleKind::kNotify>;
  return *table;
}
auto& Counters() {
  static auto* table = new runtime::HandleTable<Notify, runtime::HandleKind::kCntNotify>;
  return *table;
}

// What was exported under a key, as long as some handle keeps it alive.
struct Shared {
  std::weak_ptr<Notify> notify;
  bool anyone = false;  // no list of processes is asked
  std::vector<int32_t> processes;
};
struct SharedNotifies {
  std::mutex mutex;
  std::map<std::string, Shared> by_key;
};
SharedNotifies& Exported() {
  static auto* exported = new SharedNotifies;
  return *exported;
}

constexpr size_t kKeyBytes = 65;  // with its end, as documented

template <typename Table>
int Find(const char* function, const char* argument, Table& table, const void* handle,
         std::shared_ptr<Notify>* notify) {
  if (!handle) return FailNull(function, argument);
  *notify = table.Find(handle);
  if (*notify) return ACL_SUCCESS;
  return Fail(function, ACL_ERROR_RT_INVALID_HANDLE,
              StrFormat("%s %p is not live (destroyed already?)", argument, handle));
}

template <typename Table>
int Make(const char* function, const char* argument, Table& table, void** result) {
  if (!result) return FailNull(function, argument);
  *result = table.Insert(std::make_shared<Notify>());
  return *result ? int{ACL_SUCCESS}
                 : Fail(function, ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "too many notifies are alive");
}

void NoteRecorded(const Notify& notify, const Stream& stream) {
  if (runtime::Checks(runtime::kCheckSync) && !stream.capture()) {
    runtime::NoteNotifyRecorded(notify.id(), stream.id());
  }
}
void NoteAwaited(const Notify& notify, const Stream& stream) {
  if (runtime::Checks(runtime::kCheckSync) && !stream.capture()) {
    runtime::NoteNotifyAwaited(notify.id(), stream.id());
  }
}

milliseconds Seconds(uint32_t s) { return milliseconds(int64_t{1000} * s); }

// The list of a shared notify; null with a message when it was not exported.
Shared* FindShared(const char* function, SharedNotifies& s, const std::shared_ptr<Notify>& notify) {
  for (auto& [key, shared] : s.by_key) {
    if (shared.notify.lock() == notify) return &shared;
  }
  Fail(function, ACL_ERROR_INVALID_PARAM, "the notify has no key yet; call aclrtNotifyGetExportKey first");
  return nullptr;
}

}  // namespace

OPSNN_ACL_API aclError aclrtCreateNotify(aclrtNotify* notify, uint64_t flag) {
  static const char* const kApi = "aclrtCreateNotify";
  if (flag != ACL_NOTIFY_DEFAULT && flag != ACL_NOTIFY_DEVICE_USE_ONLY) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM,
                StrFormat("flag is %llu; allowed: 0, 1", static_cast<unsigned long long>(flag)));
  }
  return Make(kApi, "notify", Notifies(), notify);
}

OPSNN_ACL_API aclError aclrtDestroyNotify(aclrtNotify notify) {
  std::shared_ptr<Notify> n;
  if (int code = Find("aclrtDestroyNotify", "notify", Notifies(), notify, &n)) return code;
  Notifies().Remove(notify);  // queued tasks keep what they need
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
  static const char* const kApi = "aclrtRecordNotify";
  std::shared_ptr<Notify> n;
  std::shared_ptr<Stream> s;
  if (int code = Find(kApi, "notify", Notifies(), notify, &n)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  NoteRecorded(*n, *s);
  runtime::QueueChange(kApi, n, Notify::Change::kSet, 1, s);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
  static const char* const kApi = "aclrtWaitAndResetNotify";
  std::shared_ptr<Notify> n;
  std::shared_ptr<Stream> s;
  if (int code = Find(kApi, "notify", Notifies(), notify, &n)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  NoteAwaited(*n, *s);
  runtime::QueueNotifyWait(kApi, n, Notify::Condition::kGreater, 0, true, Seconds(timeout), s);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t* notifyId) {
  std::shared_ptr<Notify> n;
  if (!notifyId) return FailNull("aclrtGetNotifyId", "notifyId");
  if (int code = Find("aclrtGetNotifyId", "notify", Notifies(), notify, &n)) return code;
  *notifyId = n->id();
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtNotifyBatchReset(aclrtNotify* notifies, size_t num) {
  static const char* const kApi = "aclrtNotifyBatchReset";
  if (!notifies) return FailNull(kApi, "notifies");
  std::vector<std::shared_ptr<Notify>> all;  // none is reset where one is wrong
  for (size_t i = 0; i < num; ++i) {
    all.emplace_back();
    if (int code = Find(kApi, "a member of notifies", Notifies(), notifies[i], &all.back())) return code;
  }
  for (const auto& n : all) n->Apply(Notify::Change::kSet, 0);
  return ACL_SUCCESS;
}

// ---- sharing
OPSNN_ACL_API aclError aclrtNotifyGetExportKey(aclrtNotify notify, char* key, size_t len, uint64_t flags) {
  static const char* const kApi = "aclrtNotifyGetExportKey";
  std::shared_ptr<Notify> n;
  if (!key) return FailNull(kApi, "key");
  if (len < kKeyBytes) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM,
                StrFormat("len is %zu; allowed: at least %zu", len, kKeyBytes));
  }
  if (int code = Find(kApi, "notify", Notifies(), notify, &n)) return code;
  std::snprintf(key, len, "opsnn-notify-%d-%u", static_cast<int>(getpid()), n->id());
  SharedNotifies& s = Exported();
  std::lock_guard lock(s.mutex);
  std::erase_if(s.by_key, [](const auto& e) { return e.second.notify.expired(); });
  Shared& shared = s.by_key[key];
  shared.notify = n;
  shared.anyone = (flags & ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION) != 0;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t* pid, size_t num) {
  static const char* const kApi = "aclrtNotifySetImportPid";
  std::shared_ptr<Notify> n;
  if (!pid || !num) return Fail(kApi, ACL_ERROR_INVALID_PARAM, "pid is null or num is 0");
  if (int code = Find(kApi, "notify", Notifies(), notify, &n)) return code;
  SharedNotifies& s = Exported();
  std::lock_guard lock(s.mutex);
  Shared* shared = FindShared(kApi, s, n);
  if (!shared) return ACL_ERROR_INVALID_PARAM;
  shared->processes.assign(pid, pid + num);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtNotifyImportByKey(aclrtNotify* notify, const char* key, uint64_t flags) {
  static const char* const kApi = "aclrtNotifyImportByKey";
  static_cast<void>(flags);  // devices reach each other always
  if (!notify || !key) return FailNull(kApi, notify ? "key" : "notify");
  *notify = nullptr;
  SharedNotifies& s = Exported();
  std::lock_guard lock(s.mutex);
  auto it = s.by_key.find(key);
  std::shared_ptr<Notify> n = it == s.by_key.end() ? nullptr : it->second.notify.lock();
  if (!n) {
    return Fail(
        kApi, ACL_ERROR_INVALID_PARAM,
        "key names no live notify of this process; notifies of other processes are out of reach here");
  }
  const auto& list = it->second.processes;
  if (!it->second.anyone && std::find(list.begin(), list.end(), getpid()) == list.end()) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM,
                "this process is not in the notify's list; see aclrtNotifySetImportPid");
  }
  *notify = Notifies().Insert(std::move(n));
  return *notify ? int{ACL_SUCCESS}
                 : Fail(kApi, ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "too many notifies are alive");
}

// ---- counting notifies
OPSNN_ACL_API aclError aclrtCntNotifyCreate(aclrtCntNotify* cntNotify, uint64_t flag) {
  static const char* const kApi = "aclrtCntNotifyCreate";
  if (flag) return Fail(kApi, ACL_ERROR_INVALID_PARAM, "flag is reserved; it must be 0");
  return Make(kApi, "cntNotify", Counters(), cntNotify);
}

OPSNN_ACL_API aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify) {
  std::shared_ptr<Notify> n;
  if (int code = Find("aclrtCntNotifyDestroy", "cntNotify", Counters(), cntNotify, &n)) return code;
  Counters().Remove(cntNotify);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
                                            aclrtCntNotifyRecordInfo* info) {
  static const char* const kApi = "aclrtCntNotifyRecord";
  std::shared_ptr<Notify> n;
  std::shared_ptr<Stream> s;
  if (!info) return FailNull(kApi, "info");
  Notify::Change change;
  switch (info->mode) {
    case ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE:
      change = Notify::Change::kSet;
      break;
    case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
      change = Notify::Change::kAdd;
      break;
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
      change = Notify::Change::kOr;
      break;
    case ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE:
      change = Notify::Change::kAnd;
      break;
    default:
      return Fail(kApi, ACL_ERROR_INVALID_PARAM,
                  StrFormat("info->mode is %d; allowed: 0, 1, 2, 4", static_cast<int>(info->mode)));
  }
  if (int code = Find(kApi, "cntNotify", Counters(), cntNotify, &n)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  NoteRecorded(*n, *s);
  runtime::QueueChange(kApi, n, change, info->value, s);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
                                                     aclrtCntNotifyWaitInfo* info) {
  static const char* const kApi = "aclrtCntNotifyWaitWithTimeout";
  std::shared_ptr<Notify> n;
  std::shared_ptr<Stream> s;
  if (!info) return FailNull(kApi, "info");
  static_assert(static_cast<int>(Notify::Condition::kHasBits) ==
                ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE);
  if (info->mode < ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE ||
      info->mode > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM,
                StrFormat("info->mode is %d; allowed: 0 to 4", static_cast<int>(info->mode)));
  }
  if (info->isClear > 1) return Fail(kApi, ACL_ERROR_INVALID_PARAM, "info->isClear must be 0 or 1");
  if (int code = Find(kApi, "cntNotify", Counters(), cntNotify, &n)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  NoteAwaited(*n, *s);
  runtime::QueueNotifyWait(kApi, n, static_cast<Notify::Condition>(info->mode), info->value,
                           info->isClear != 0, Seconds(info->timeout), s);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream) {
  static const char* const kApi = "aclrtCntNotifyReset";
  std::shared_ptr<Notify> n;
  std::shared_ptr<Stream> s;
  if (int code = Find(kApi, "cntNotify", Counters(), cntNotify, &n)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  runtime::QueueChange(kApi, n, Notify::Change::kSet, 0, s);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t* notifyId) {
  std::shared_ptr<Notify> n;
  if (!notifyId) return FailNull("aclrtCntNotifyGetId", "notifyId");
  if (int code = Find("aclrtCntNotifyGetId", "cntNotify", Counters(), cntNotify, &n)) return code;
  *notifyId = n->id();
  return ACL_SUCCESS;
}

// ---- values in memory
namespace {
int CheckValue(const char* function, const void* at) {
  if (!at) return FailNull(function, "devAddr");
  if (reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t)) {
    return Fail(function, ACL_ERROR_INVALID_PARAM,
                StrFormat("devAddr is %p; allowed: multiples of %zu", at, sizeof(uint64_t)));
  }
  if (runtime::Checks(runtime::kCheckMemory)) {
    runtime::CheckDevicePointer(function, "devAddr", at, sizeof(uint64_t));
  }
  return ACL_SUCCESS;
}
}  // namespace

OPSNN_ACL_API aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  static const char* const kApi = "aclrtValueWrite";
  std::shared_ptr<Stream> s;
  if (flag) return Fail(kApi, ACL_ERROR_INVALID_PARAM, "flag is reserved; it must be 0");
  if (int code = CheckValue(kApi, devAddr)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  runtime::QueueValueWrite(static_cast<uint64_t*>(devAddr), value, s);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  static const char* const kApi = "aclrtValueWait";
  std::shared_ptr<Stream> s;
  static_assert(static_cast<int>(runtime::MemoryCondition::kNotAllBits) == ACL_STREAM_WAIT_VALUE_NOR);
  if (flag > ACL_STREAM_WAIT_VALUE_NOR) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM, StrFormat("flag is %u; allowed: 0 to 3", flag));
  }
  if (int code = CheckValue(kApi, devAddr)) return code;
  if (int code = FindStream(kApi, stream, &s)) return code;
  if (runtime::Checks(runtime::kCheckSync)) runtime::NoteUnknownOrder(s->id());
  runtime::QueueValueWait(static_cast<const uint64_t*>(devAddr), value,
                          static_cast<runtime::MemoryCondition>(flag), s);
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
