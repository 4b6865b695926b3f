// Devices and contexts. A device is the host under a number: how many are shown is a knob. Its default
// context and stream live from the first SetDevice to the matching last ResetDevice.
#ifndef OPSNN_RUNTIME_DEVICE_H_
#define OPSNN_RUNTIME_DEVICE_H_

#include <memory>

#include "base/status.h"
#include "runtime/handle_table.h"
#include "runtime/stream.h"

namespace opsnn::runtime {

struct Context {
  int device = 0;
  std::shared_ptr<Stream> default_stream;
};

using StreamTable = HandleTable<Stream, HandleKind::kStream>;
using ContextTable = HandleTable<Context, HandleKind::kContext>;
StreamTable& Streams();
ContextTable& Contexts();

int DeviceCount();
// kInvalid naming the range when there is no such device.
Status CheckDevice(int device);

// Makes the device's default context current in this thread; counted against ResetDevice.
Status SetDevice(int device);
Status ResetDevice(int device, bool force);
// Is the default context of the device alive?
bool IsActive(int device);

// The context current in this thread: the one set here, else that of the device set last in the process; null
// when no device was set.
std::shared_ptr<Context> CurrentContext();
void* CurrentContextHandle();
Status SetCurrentContext(const void* handle);
// A context of its own, made current.
Result<void*> CreateContext(int device);
Status DestroyContext(const void* handle);

// The stream behind a handle; null means the default stream of the current context (device 0 when none is
// set).
Result<std::shared_ptr<Stream>> ResolveStream(const void* handle);
Result<void*> CreateStream(uint32_t priority, uint32_t flags);
Status DestroyStream(const void* handle, bool force);

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_DEVICE_H_
