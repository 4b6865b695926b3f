// Callbacks on host threads of the program's choice: a thread subscribes to a stream, and callbacks queued on
// that stream run when the thread processes reports.
#ifndef OPSNN_RUNTIME_CALLBACKS_H_
#define OPSNN_RUNTIME_CALLBACKS_H_

#include <cstdint>
#include <memory>

#include "runtime/stream.h"

namespace opsnn::runtime {

using CallbackFunction = void (*)(void*);

// Queues fn(arg) to run in order on the stream, on whichever thread drains it (never a pool thread).
void QueueHostFunction(const std::shared_ptr<Stream>& stream, CallbackFunction fn, void* arg);

Status Subscribe(uint64_t thread, const std::shared_ptr<Stream>& stream);
Status Unsubscribe(uint64_t thread, const std::shared_ptr<Stream>& stream);
bool IsSubscribed(const std::shared_ptr<Stream>& stream);
// Queues fn(arg) for the subscribed thread; with `block`, the stream goes on only after it has run.
Status QueueReport(const std::shared_ptr<Stream>& stream, CallbackFunction fn, void* arg, bool block);
enum class Report { kRan, kTimeout, kNotSubscribed };
// Runs one callback queued for the calling thread; waits for one until the deadline.
Report ProcessReport(Deadline deadline);

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_CALLBACKS_H_
