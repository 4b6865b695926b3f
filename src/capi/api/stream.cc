// Streams, events and callbacks.
#include "capi/acl_exports.h"
#include "capi/api/find_stream.h"
#include "capi/api/limits.h"
#include "capi/api/observers.h"
#include "capi/boundary.h"
#include "runtime/callbacks.h"
#include "runtime/check.h"
#include "runtime/device.h"
#include "runtime/event.h"

namespace opsnn::capi {
namespace {

using runtime::Checks;
using runtime::Deadline;
using runtime::Event;
using runtime::EventRecord;
using runtime::Stream;

auto& Events() {
  static auto* table = new runtime::HandleTable<Event, runtime::HandleKind::kEvent>;
  return *table;
}

// Timeouts are in milliseconds; -1 waits for ever.
Deadline DeadlineIn(int32_t timeout_ms) {
  if (timeout_ms < 0) return std::nullopt;
  return runtime::Clock::now() + std::chrono::milliseconds(timeout_ms);
}

int FindEvent(const char* function, aclrtEvent handle, std::shared_ptr<Event>* event) {
  if (!handle) return Fail(function, ACL_ERROR_INVALID_PARAM, "event is null; it must be a live aclrtEvent");
  *event = Events().Find(handle);
  if (*event) return ACL_SUCCESS;
  return Fail(function, ACL_ERROR_RT_INVALID_HANDLE,
              StrFormat("event %p is not a live aclrtEvent (destroyed already?)", handle));
}

int FromInside(const char* function) {
  return Fail(function, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "called by a host function of the very stream that it waits for");
}

int Synchronize(const char* function, aclrtStream handle, Deadline deadline) {
  std::shared_ptr<Stream> stream;
  if (int code = FindStream(function, handle, &stream)) return code;
  if (stream->capture()) {
    return Fail(function, ACL_ERROR_RT_STREAM_CAPTURED,
                "the stream captures; its tasks run when the model is executed, after aclmdlRICaptureEnd");
  }
  switch (stream->Drain(deadline)) {
    case Stream::Wait::kTimeout:
      return Fail(function, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                  "the work queued on the stream did not finish in time");
    case Stream::Wait::kFromInside:
      return FromInside(function);
    case Stream::Wait::kBlocked:  // only where gates end the wait
    case Stream::Wait::kDone:
      break;
  }
  if (Checks(runtime::kCheckSync)) runtime::NoteStreamDone(stream->id());
  return Fail(function, stream->TakeError());
}

int MakeStream(const char* function, aclrtStream* stream, uint32_t priority, uint32_t flags) {
  if (!stream) return FailNull(function, "stream");
  auto handle = runtime::CreateStream(priority, flags);
  if (!handle.ok()) return Fail(function, ACL_ERROR_RT_CONTEXT_NULL, handle.status().message());
  *stream = *handle;
  TellStreamState(*stream, ACL_RT_STREAM_STATE_CREATE_POST);
  return ACL_SUCCESS;
}

int EndStream(const char* function, aclrtStream stream, bool force) {
  const auto found = runtime::ResolveStream(stream);
  if (stream && found.ok()) TellStreamState(stream, ACL_RT_STREAM_STATE_DESTROY_PRE);
  Status s = runtime::DestroyStream(stream, force);
  if (s.ok()) {
    if (Checks(runtime::kCheckSync)) runtime::NoteStreamDone((*found)->id());
    return ACL_SUCCESS;
  }
  return Fail(function, s.code() == Code::kNull ? int{ACL_ERROR_INVALID_PARAM} : ACL_ERROR_RT_INVALID_HANDLE,
              s.message());
}

int MakeEvent(const char* function, aclrtEvent* event, uint32_t flags) {
  if (!event) return FailNull(function, "event");
  *event = Events().Insert(std::make_shared<Event>(flags));
  return *event ? int{ACL_SUCCESS}
                : Fail(function, ACL_ERROR_STORAGE_OVER_LIMIT, "too many events are alive");
}

int AwaitEvent(const char* function, aclrtEvent handle, Deadline deadline) {
  std::shared_ptr<Event> event;
  if (int code = FindEvent(function, handle, &event)) return code;
  auto record = event->Newest();
  if (!record) return ACL_SUCCESS;  // never recorded: nothing to wait for
  switch (record->Await(deadline)) {
    case Stream::Wait::kTimeout:
      return Fail(function, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event was not reached in time");
    case Stream::Wait::kFromInside:
      return FromInside(function);
    case Stream::Wait::kBlocked:  // only where gates end the wait
    case Stream::Wait::kDone:
      break;
  }
  if (Checks(runtime::kCheckSync)) runtime::NoteEventReached(event->id());
  return Fail(function, record->Error());
}

// Has the event been reached? Somebody who asks also wants it to come closer.
bool Reached(const Event& event) {
  auto record = event.Newest();
  if (!record || record->Done()) {
    if (Checks(runtime::kCheckSync)) runtime::NoteEventReached(event.id());
    return true;
  }
  record->stream->Nudge();
  return false;
}

int WaitInStream(const char* function, aclrtStream stream_handle, aclrtEvent event_handle,
                 std::chrono::milliseconds timeout) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  if (int code = FindEvent(function, event_handle, &event)) return code;
  if (int code = FindStream(function, stream_handle, &stream)) return code;
  if (Checks(runtime::kCheckSync) && !stream->capture()) {
    runtime::NoteEventAwaited(event->id(), stream->id());
  }
  event->QueueWait(stream, timeout);
  return ACL_SUCCESS;
}

int RecordIn(const char* function, aclrtEvent event_handle, aclrtStream stream_handle) {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Event> event;
  if (int code = FindEvent(function, event_handle, &event)) return code;
  if (int code = FindStream(function, stream_handle, &stream)) return code;
  if (Checks(runtime::kCheckSync) && !stream->capture()) {
    runtime::NoteEventRecorded(event->id(), stream->id());
  }
  event->Record(stream);
  return ACL_SUCCESS;
}

// The time of an event, or a code.
int TimeOf(const char* function, const char* argument, aclrtEvent handle, int64_t* nanoseconds) {
  std::shared_ptr<Event> event;
  if (int code = FindEvent(function, handle, &event)) return code;
  auto record = event->Newest();
  *nanoseconds = record ? record->nanoseconds.load() : 0;
  if (*nanoseconds) return ACL_SUCCESS;
  return Fail(
      function, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
      StrFormat("%s was not recorded, or its stream has not reached it; synchronize first", argument));
}

}  // namespace

OPSNN_ACL_API aclError aclrtCreateStream(aclrtStream* stream) {
  return MakeStream("aclrtCreateStream", stream, 0, 0);
}
OPSNN_ACL_API aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  return MakeStream("aclrtCreateStreamWithConfig", stream, priority, flag);
}
OPSNN_ACL_API aclError aclrtDestroyStream(aclrtStream stream) {
  return EndStream("aclrtDestroyStream", stream, false);
}
OPSNN_ACL_API aclError aclrtDestroyStreamForce(aclrtStream stream) {
  return EndStream("aclrtDestroyStreamForce", stream, true);
}
OPSNN_ACL_API aclError aclrtSynchronizeStream(aclrtStream stream) {
  return Synchronize("aclrtSynchronizeStream", stream, std::nullopt);
}
OPSNN_ACL_API aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  return Synchronize("aclrtSynchronizeStreamWithTimeout", stream, DeadlineIn(timeout));
}

OPSNN_ACL_API aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  auto context = runtime::CurrentContext();
  if (!context) {
    return Fail("aclrtSynchronizeDeviceWithTimeout", ACL_ERROR_RT_CONTEXT_NULL,
                "no device is set in this process");
  }
  switch (runtime::DrainAllStreams(context->device, DeadlineIn(timeout))) {
    case Stream::Wait::kTimeout:
      return Fail("aclrtSynchronizeDeviceWithTimeout", ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                  "the work queued on the device did not finish in time");
    case Stream::Wait::kFromInside:
      return Fail("aclrtSynchronizeDeviceWithTimeout", ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                  "called by a host function of a stream that it waits for");
    case Stream::Wait::kBlocked:  // only where gates end the wait
    case Stream::Wait::kDone:
      break;
  }
  if (Checks(runtime::kCheckSync)) runtime::NoteAllDone();
  return Fail("aclrtSynchronizeDeviceWithTimeout", runtime::TellErrors(context->device));
}
OPSNN_ACL_API aclError aclrtSynchronizeDevice() { return aclrtSynchronizeDeviceWithTimeout(-1); }

OPSNN_ACL_API aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  if (!status) return FailNull("aclrtStreamQuery", "status");
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtStreamQuery", stream, &s)) return code;
  const bool done = s->Done(s->Newest());
  if (!done) s->Nudge();
  if (done && Checks(runtime::kCheckSync)) runtime::NoteStreamDone(s->id());
  *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  if (!streamId) return FailNull("aclrtStreamGetId", "streamId");
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtStreamGetId", stream, &s)) return code;
  *streamId = s->id();
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t* priority) {
  if (!priority) return FailNull("aclrtStreamGetPriority", "priority");
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtStreamGetPriority", stream, &s)) return code;
  *priority = s->priority();
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t* flags) {
  if (!flags) return FailNull("aclrtStreamGetFlags", "flags");
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtStreamGetFlags", stream, &s)) return code;
  *flags = s->flags();
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtStreamAbort(aclrtStream stream) {
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtStreamAbort", stream, &s)) return code;
  s->Abort();
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  if (!stream) return FailNull("aclrtCtxGetCurrentDefaultStream", "stream");
  *stream = nullptr;  // the null handle stands for the default stream everywhere
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtCreateEvent(aclrtEvent* event) { return MakeEvent("aclrtCreateEvent", event, 0); }
OPSNN_ACL_API aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return MakeEvent("aclrtCreateEventWithFlag", event, flag);
}
OPSNN_ACL_API aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return MakeEvent("aclrtCreateEventExWithFlag", event, flag);
}
OPSNN_ACL_API aclError aclrtDestroyEvent(aclrtEvent event) {
  std::shared_ptr<Event> e;
  if (int code = FindEvent("aclrtDestroyEvent", event, &e)) return code;
  Events().Remove(event);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return RecordIn("aclrtRecordEvent", event, stream);
}
OPSNN_ACL_API aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  static_cast<void>(flag);
  return RecordIn("aclrtRecordEventWithFlag", event, stream);
}
OPSNN_ACL_API aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  std::shared_ptr<Stream> s;
  std::shared_ptr<Event> e;
  if (int code = FindEvent("aclrtResetEvent", event, &e)) return code;
  if (int code = FindStream("aclrtResetEvent", stream, &s)) return code;
  e->QueueReset(s);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  if (!status) return FailNull("aclrtQueryEvent", "status");
  std::shared_ptr<Event> e;
  if (int code = FindEvent("aclrtQueryEvent", event, &e)) return code;
  *status = Reached(*e) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  if (!status) return FailNull("aclrtQueryEventStatus", "status");
  std::shared_ptr<Event> e;
  if (int code = FindEvent("aclrtQueryEventStatus", event, &e)) return code;
  *status = Reached(*e) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  if (!status) return FailNull("aclrtQueryEventWaitStatus", "status");
  std::shared_ptr<Event> e;
  if (int code = FindEvent("aclrtQueryEventWaitStatus", event, &e)) return code;
  *status = Reached(*e) ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return AwaitEvent("aclrtSynchronizeEvent", event, std::nullopt);
}
OPSNN_ACL_API aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  return AwaitEvent("aclrtSynchronizeEventWithTimeout", event, DeadlineIn(timeout));
}
OPSNN_ACL_API aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  if (!ms) return FailNull("aclrtEventElapsedTime", "ms");
  int64_t start = 0, end = 0;
  if (int code = TimeOf("aclrtEventElapsedTime", "startEvent", startEvent, &start)) return code;
  if (int code = TimeOf("aclrtEventElapsedTime", "endEvent", endEvent, &end)) return code;
  if (end < start) {
    return Fail("aclrtEventElapsedTime", ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
                "endEvent was reached before startEvent");
  }
  *ms = static_cast<float>(static_cast<double>(end - start) * 1e-6);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  if (!timestamp) return FailNull("aclrtEventGetTimestamp", "timestamp");
  int64_t ns = 0;
  if (int code = TimeOf("aclrtEventGetTimestamp", "event", event, &ns)) return code;
  *timestamp = static_cast<uint64_t>(ns / 1000);  // microseconds
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtGetEventId(aclrtEvent event, uint32_t* eventId) {
  if (!eventId) return FailNull("aclrtGetEventId", "eventId");
  std::shared_ptr<Event> e;
  if (int code = FindEvent("aclrtGetEventId", event, &e)) return code;
  *eventId = e->id();
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return WaitInStream("aclrtStreamWaitEvent", stream, event, EventWaitTimeout());
}
// Timeouts of these two are seconds; 0 waits for ever.
OPSNN_ACL_API aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
                                                    uint32_t flag) {
  static const char* const kApi = "aclrtStreamWaitEventWithFlag";
  if (flag == ACL_EVENT_WAIT_EXTERNAL) {
    return Fail(kApi, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                "waits for events outside of a capture (ACL_EVENT_WAIT_EXTERNAL) are not supported");
  }
  if (flag != ACL_EVENT_WAIT_DEFAULT) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM, StrFormat("flag is %u; allowed: 0, 1", flag));
  }
  return WaitInStream(kApi, stream, event, std::chrono::seconds(timeout));
}
OPSNN_ACL_API aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event,
                                                       int32_t timeout) {
  static const char* const kApi = "aclrtStreamWaitEventWithTimeout";
  if (timeout < 0) {
    return Fail(kApi, ACL_ERROR_INVALID_PARAM,
                StrFormat("timeout is %d; allowed: seconds, or 0 for none", timeout));
  }
  return WaitInStream(kApi, stream, event, std::chrono::seconds(timeout));
}

// ---- callbacks
OPSNN_ACL_API aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  if (!fn) return Fail("aclrtLaunchHostFunc", ACL_ERROR_INVALID_PARAM, "fn is null");
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtLaunchHostFunc", stream, &s)) return code;
  runtime::QueueHostFunction(s, fn, args);
  return ACL_SUCCESS;
}
OPSNN_ACL_API aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtSubscribeReport", stream, &s)) return code;
  Status status = runtime::Subscribe(threadId, s);
  return status.ok() ? int{ACL_SUCCESS}
                     : Fail("aclrtSubscribeReport", ACL_ERROR_REPEAT_SUBSCRIBE, status.message());
}
OPSNN_ACL_API aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtUnSubscribeReport", stream, &s)) return code;
  Status status = runtime::Unsubscribe(threadId, s);
  return status.ok() ? int{ACL_SUCCESS}
                     : Fail("aclrtUnSubscribeReport", ACL_ERROR_THREAD_NOT_SUBSCRIBE, status.message());
}
OPSNN_ACL_API aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType,
                                           aclrtStream stream) {
  if (!fn) return Fail("aclrtLaunchCallback", ACL_ERROR_INVALID_PARAM, "fn is null");
  std::shared_ptr<Stream> s;
  if (int code = FindStream("aclrtLaunchCallback", stream, &s)) return code;
  if (!runtime::IsSubscribed(s)) {
    return Fail("aclrtLaunchCallback", ACL_ERROR_STREAM_NOT_SUBSCRIBE,
                "no thread is subscribed to the stream; call aclrtSubscribeReport first");
  }
  return Fail("aclrtLaunchCallback", runtime::QueueReport(s, fn, userData, blockType == ACL_CALLBACK_BLOCK));
}
OPSNN_ACL_API aclError aclrtProcessReport(int32_t timeout) {
  switch (runtime::ProcessReport(DeadlineIn(timeout))) {
    case runtime::Report::kRan:
      return ACL_SUCCESS;
    case runtime::Report::kThrew:
      return Fail("aclrtProcessReport", ACL_ERROR_RT_INTERNAL_ERROR,
                  "the callback threw an exception; a function that opsnn calls must not");
    case runtime::Report::kTimeout:
      return Fail("aclrtProcessReport", ACL_ERROR_WAIT_CALLBACK_TIMEOUT, "no callback arrived in time");
    case runtime::Report::kNotSubscribed:
      break;
  }
  return Fail("aclrtProcessReport", ACL_ERROR_THREAD_NOT_SUBSCRIBE,
              "this thread is not subscribed to a stream");
}

}  // namespace opsnn::capi
