// Callbacks on host threads of the program's choice: a thread subscribes to a stream, and callbacks queued on
// that stream run when the thread processes reports.
#ifndef OPSNN_RUNTIME_CALLBACKS_H_
#define OPSNN_RUNTIME_CALLBACKS_H_

#include <cstdint>
#include <memory>

#include "runtime/stream.h"

namespace opsnn::runtime {

using CallbackFunction = void (*)(void*);

// Calls a function of the program, which `what` names to the user; an exception out of it ends here, whatever
// its type, and becomes a status.
template <typename Call>
Status CallProgram(const char* what, Call&& call) {
  try {
    call();
    return OkStatus();
  } catch (...) {
    return Errorf(Code::kRuntime, "%s threw an exception; a function that opsnn calls must not", what);
  }
}

// Queues fn(arg) to run in order on the stream, on whichever thread drains it (never a pool thread).
void QueueHostFunction(const std::shared_ptr<Stream>& stream, CallbackFunction fn, void* arg);

Status Subscribe(uint64_t thread, const std::shared_ptr<Stream>& stream);
Status Unsubscribe(uint64_t thread, const std::shared_ptr<Stream>& stream);
bool IsSubscribed(const std::shared_ptr<Stream>& stream);
// Queues fn(arg) for the subscribed thread; with `block`, the stream goes on only after it has run.
Status QueueReport(const std::shared_ptr<Stream>& stream, CallbackFunction fn, void* arg, bool block);
enum class Report { kRan, kThrew, kTimeout, kNotSubscribed };
// Runs one callback queued for the calling thread; waits for one until the deadline.
Report ProcessReport(Deadline deadline);

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_CALLBACKS_H_
