// Streams: in-order queues of tasks.
//
// A task runs on whoever comes first. The thread that synchronises drains the queue itself: there is no
// hand-over, because waking a sleeping thread costs tens of microseconds. If nobody synchronises, the
// stream's own worker takes over after kPatience; it is started by the first task that finds none, polls
// while there is work and ends when the stream has been idle for a while. So a process that queues nothing
// has no threads and may fork; in the child of a fork the queues are empty and workers start anew.
//
// A task waiting for an event drains the stream that will record it. Records precede their waits, so such
// chains end. Tasks never run on pool threads (they may use the pool).
#ifndef OPSNN_RUNTIME_STREAM_H_
#define OPSNN_RUNTIME_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/status.h"

namespace opsnn::runtime {

// Plain and copyable: a captured task may run again. The payload is immutable.
struct Task {
  Status (*run)(const void* payload) = nullptr;
  std::shared_ptr<const void> payload;
  const char* name = "";
};

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;  // nullopt: none

class Capture;  // runtime/capture.h

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> Create(int device, uint32_t priority = 0, uint32_t flags = 0);
  ~Stream();
  Stream(const Stream&) = delete;

  int id() const { return id_; }
  int device() const { return device_; }
  uint32_t priority() const { return priority_; }
  uint32_t flags() const { return flags_; }

  // Queues a task and returns its ticket: 1, 2, 3, ... While the stream captures, the task is recorded
  // instead and the ticket is that of the newest one queued before.
  uint64_t Push(Task task);
  // The ticket of the newest task.
  uint64_t Newest() const;
  // Has the task with this ticket finished?
  bool Done(uint64_t ticket) const;

  enum class Wait { kDone, kTimeout, kFromInside };
  // Returns when the task with this ticket has finished, running tasks here if nobody else does.
  // kFromInside: called by a task of this very stream, which would wait for itself.
  Wait DrainTo(uint64_t ticket, Deadline deadline = std::nullopt);
  // Drains everything queued so far.
  Wait Drain(Deadline deadline = std::nullopt) { return DrainTo(Newest(), deadline); }
  // Lets the worker start on queued tasks now (somebody polls).
  void Nudge();
  // The first failure of a task since the last call, which forgets it.
  Status TakeError();
  // Drops tasks that have not started.
  void Abort();
  // The capture that this stream records into, or null. Setting it fails when another one is under way; null
  // ends it.
  std::shared_ptr<Capture> capture() const;
  bool SetCapture(std::shared_ptr<Capture> capture);
  // No worker from now on; the destroyer has drained the stream.
  void Stop();

  // Is this thread inside a task (of any stream), or inside a callback that a stream may be waiting for?
  static bool InsideTask();
  // Marks this thread as inside such a callback.
  struct CallbackScope {
    CallbackScope();
    ~CallbackScope();
  };

 private:
  friend struct StreamForks;
  Stream(int device, uint32_t priority, uint32_t flags);
  void RunFront(std::unique_lock<std::mutex>& lock);
  void EnsureWorker();
  void WorkerLoop();
  void ResetAfterFork();

  const int id_, device_;
  const uint32_t priority_, flags_;
  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> changed_;  // on the heap: abandoned, not destroyed, after a fork
  std::deque<Task> queue_;
  std::shared_ptr<Capture> capture_;
  Clock::time_point front_since_;  // when the task now in front could have started
  uint64_t pushed_ = 0, completed_ = 0;
  bool running_ = false;
  std::thread::id runner_;
  int waiters_ = 0;
  bool worker_alive_ = false, nudged_ = false, stopped_ = false;
  Status error_;
};

// Drains every live stream of a device, or of all devices (-1). False if the deadline passed.
bool DrainAllStreams(int device, Deadline deadline = std::nullopt);

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_STREAM_H_
