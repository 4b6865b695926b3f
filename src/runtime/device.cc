#include "runtime/device.h"

#include <map>
#include <mutex>

#include "base/knobs.h"
#include "runtime/capture.h"
#include "runtime/last_error.h"

namespace opsnn::runtime {
namespace {

struct Device {
  int references = 0;
  void* context = nullptr;
};

struct Devices {
  std::mutex mutex;
  std::map<int, Device> by_id;
  int last_set = -1;
  std::shared_ptr<Stream> fallback;  // for work queued before any SetDevice
};

Devices& All() {
  static auto* devices = new Devices;
  return *devices;
}

thread_local void* current_context = nullptr;

std::shared_ptr<Context> NewContext(int device) {
  auto context = std::make_shared<Context>();
  context->device = device;
  context->default_stream = Stream::Create(device);
  return context;
}

// A failure that nobody asked the stream for goes to the messages of the thread that ends it.
void LeaveError(Stream& stream) {
  if (const Status s = stream.TakeError(); !s.ok()) AddErrorMessage(s);
}

void EndContext(const void* handle) {
  if (std::shared_ptr<Context> context = Contexts().Remove(handle)) {
    Capture::Leave(context->default_stream);
    if (context->default_stream->Drain(std::nullopt, AtGates::kGiveUp) == Waited::kBlocked) {
      context->default_stream->Abort();  // nobody can reach it any more to open what it waits for
    }
    context->default_stream->Stop();
    LeaveError(*context->default_stream);
  }
}

}  // namespace

StreamTable& Streams() {
  static auto* table = new StreamTable;
  return *table;
}

ContextTable& Contexts() {
  static auto* table = new ContextTable;
  return *table;
}

int DeviceCount() { return GetKnobs().num_devices; }

Status CheckDevice(int device) {
  if (device >= 0 && device < DeviceCount()) return OkStatus();
  return InvalidArgument("deviceId is %d; allowed: 0 to %d (OPSNN_NUM_DEVICES devices are shown)", device,
                         DeviceCount() - 1);
}

Status SetDevice(int device) {
  OPSNN_RETURN_IF_ERROR(CheckDevice(device));
  Devices& all = All();
  std::lock_guard lock(all.mutex);
  Device& d = all.by_id[device];
  if (!d.context) d.context = Contexts().Insert(NewContext(device));
  ++d.references;
  all.last_set = device;
  current_context = d.context;
  return OkStatus();
}

Status ResetDevice(int device, bool force) {
  OPSNN_RETURN_IF_ERROR(CheckDevice(device));
  Devices& all = All();
  void* ended = nullptr;
  {
    std::lock_guard lock(all.mutex);
    Device& d = all.by_id[device];
    if (d.references == 0) return OkStatus();  // never set: nothing to undo
    d.references = force ? 0 : d.references - 1;
    if (d.references == 0) ended = std::exchange(d.context, nullptr);
    if (ended && all.last_set == device) all.last_set = -1;
  }
  if (ended) {
    if (current_context == ended) current_context = nullptr;
    if (!Stream::InsideTask()) DrainAllStreams(device, std::nullopt, AtGates::kGiveUp);
    EndContext(ended);
  }
  return OkStatus();
}

bool IsActive(int device) {
  Devices& all = All();
  std::lock_guard lock(all.mutex);
  auto it = all.by_id.find(device);
  return it != all.by_id.end() && it->second.context;
}

void* CurrentContextHandle() {
  if (current_context && Contexts().Find(current_context)) return current_context;
  Devices& all = All();
  std::lock_guard lock(all.mutex);
  auto it = all.by_id.find(all.last_set);
  return it == all.by_id.end() ? nullptr : it->second.context;
}

std::shared_ptr<Context> CurrentContext() { return Contexts().Find(CurrentContextHandle()); }

Status SetCurrentContext(const void* handle) {
  if (!handle) return Errorf(Code::kNull, "context is null; it must be a live aclrtContext");
  if (!Contexts().Find(handle)) {
    return InvalidArgument("context %p is not a live aclrtContext (destroyed already?)", handle);
  }
  current_context = const_cast<void*>(handle);
  return OkStatus();
}

Result<void*> CreateContext(int device) {
  OPSNN_RETURN_IF_ERROR(CheckDevice(device));
  void* handle = Contexts().Insert(NewContext(device));
  if (!handle) return Errorf(Code::kRuntime, "too many contexts are alive");
  current_context = handle;
  return handle;
}

Status DestroyContext(const void* handle) {
  if (!handle) return Errorf(Code::kNull, "context is null; it must be a live aclrtContext");
  {
    Devices& all = All();
    std::lock_guard lock(all.mutex);
    for (const auto& [id, d] : all.by_id) {
      if (d.context == handle) {
        return InvalidArgument("context %p is the default context of device %d; aclrtResetDevice ends it",
                               handle, id);
      }
    }
  }
  if (!Contexts().Find(handle)) {
    return InvalidArgument("context %p is not a live aclrtContext (destroyed already?)", handle);
  }
  if (current_context == handle) current_context = nullptr;
  EndContext(handle);
  return OkStatus();
}

Result<std::shared_ptr<Stream>> ResolveStream(const void* handle) {
  if (handle) {
    if (auto stream = Streams().Find(handle)) return stream;
    return InvalidArgument(
        "stream %p is not a live aclrtStream (it is %s)", handle,
        KindOf(handle) == HandleKind::kStream ? "destroyed already" : Name(KindOf(handle)));
  }
  if (auto context = CurrentContext()) return context->default_stream;
  Devices& all = All();
  std::lock_guard lock(all.mutex);
  if (!all.fallback) all.fallback = Stream::Create(0);
  return all.fallback;
}

Result<void*> CreateStream(uint32_t priority, uint32_t flags) {
  auto context = CurrentContext();
  if (!context) return Errorf(Code::kRuntime, "no device is set; call aclrtSetDevice first");
  void* handle = Streams().Insert(Stream::Create(context->device, priority, flags));
  if (!handle) return Errorf(Code::kRuntime, "too many streams are alive");
  return handle;
}

Status DestroyStream(const void* handle, bool force) {
  if (!handle) return Errorf(Code::kNull, "stream is null; it must be a live aclrtStream");
  std::shared_ptr<Stream> stream = Streams().Remove(handle);
  if (!stream) return InvalidArgument("stream %p is not a live aclrtStream (destroyed already?)", handle);
  Capture::Leave(stream);
  if (force) stream->Abort();
  stream->Drain();
  stream->Stop();
  LeaveError(*stream);
  return OkStatus();
}

}  // namespace opsnn::runtime
