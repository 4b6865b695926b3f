// Streams: in-order queues of tasks.
//
// A task runs on whoever comes first. The thread that synchronises drains the queue itself: there is no
// hand-over, because waking a sleeping thread costs tens of microseconds. If nobody synchronises, the
// stream's own worker takes over after kPatience; it is started by the first task that finds none, polls
// while there is work and ends when the stream has been idle for a while. So a process that queues nothing
// has no threads and may fork; in the child of a fork the queues are empty and workers start anew.
//
// A task that waits for something has a gate: while it is closed the task stays in front and nobody is stuck
// inside it, so that the stream can be given up. Whoever drains helps: behind an event it drains the stream
// that will record it. Records precede their waits, so such chains end. Tasks never run on pool threads (they
// may use the pool).
#ifndef OPSNN_RUNTIME_STREAM_H_
#define OPSNN_RUNTIME_STREAM_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/status.h"
#include "runtime/check.h"

namespace opsnn::runtime {

using Clock = std::chrono::steady_clock;
using Deadline = std::optional<Clock::time_point>;  // nullopt: none

// How a wait for a stream ended. kFromInside: called by a task of this very stream, which would wait for
// itself. kBlocked: what is in front waits for something that nobody here can bring about.
enum class Waited { kDone, kTimeout, kFromInside, kBlocked };
// May a wait go on behind a closed gate, or does it end there?
enum class AtGates { kWait, kGiveUp };

// What a task waits for before it runs.
struct Gate {
  // Asked with the stream locked, so it may lock no other stream; true also takes what is waited for, once.
  bool (*open)(const void* payload) = nullptr;
  // Brings the opening about, without the lock; kDone: it is open now. Null: it can only be waited for.
  Waited (*help)(const void* payload, Deadline deadline, AtGates gates) = nullptr;
};

// Plain and copyable: a captured task may run again. The payload is immutable.
struct Task {
  Status (*run)(const void* payload) = nullptr;
  std::shared_ptr<const void> payload;
  const char* name = "";
  const Gate* gate = nullptr;
  std::chrono::milliseconds timeout{0};  // how long the gate may stay closed; 0: for ever
  // Told instead of `run` where the gate did not open in time; null: nobody.
  void (*late)(const void* payload) = nullptr;
  // What it touches, kept while it is recorded; null where the checker is off.
  std::shared_ptr<const std::vector<MemoryAccess>> accesses;
};

class Capture;  // runtime/capture.h

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> Create(int device, uint32_t priority = 0, uint32_t flags = 0);
  ~Stream();
  Stream(const Stream&) = delete;

  int id() const { return id_; }
  int device() const { return device_; }
  uint32_t priority() const { return priority_; }  // kept for the program; every stream is served alike
  void set_priority(uint32_t priority) { priority_ = priority; }
  uint32_t flags() const { return flags_; }

  // Queues a task and returns its ticket: 1, 2, 3, ... While the stream captures, the task is recorded
  // instead and the ticket is that of the newest one queued before.
  uint64_t Push(Task task);
  // Queues tasks one behind the other, with none of others in between; the ticket of the last.
  uint64_t PushAll(std::vector<Task> tasks);
  // The ticket of the newest task.
  uint64_t Newest() const;
  // Has the task with this ticket finished?
  bool Done(uint64_t ticket) const;

  using Wait = Waited;
  // Returns when the task with this ticket has finished, running tasks here if nobody else does.
  Wait DrainTo(uint64_t ticket, Deadline deadline = std::nullopt, AtGates gates = AtGates::kWait);
  // Drains everything queued so far.
  Wait Drain(Deadline deadline = std::nullopt, AtGates gates = AtGates::kWait) {
    return DrainTo(Newest(), deadline, gates);
  }
  // Lets the worker start on queued tasks now (somebody polls).
  void Nudge();
  // The first failure of a task since the last call, which forgets it.
  Status TakeError();
  // The same without forgetting.
  Status Error() const;
  // The same once per failure, for those who wait for many streams: the stream's own synchronisation tells it
  // too.
  Status TellError();
  // Drops tasks that have not started.
  void Abort();
  // The capture that this stream records into, or null. Setting it fails when another one is under way; null
  // ends it.
  std::shared_ptr<Capture> capture() const;
  bool SetCapture(std::shared_ptr<Capture> capture);
  // From the first failure of a task on, drops what is queued and what comes, and keeps giving the failure.
  void StopOnFailure();
  bool stops_on_failure() const;
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
  uint64_t PushLocked(Task task);
  void RunFront(std::unique_lock<std::mutex>& lock);
  // May the task in front run? One whose time is over may: as a failure.
  bool FrontMayRun();
  // Waits a little for the gate in front, or helps it to open.
  Wait AwaitGate(std::unique_lock<std::mutex>& lock, Deadline deadline, AtGates gates,
                 std::chrono::microseconds poll);
  void EnsureWorker();
  void WorkerLoop();
  void ResetAfterFork();

  const int id_, device_;
  std::atomic<uint32_t> priority_;
  const uint32_t flags_;
  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> changed_;  // on the heap: abandoned, not destroyed, after a fork
  std::deque<Task> queue_;
  std::shared_ptr<Capture> capture_;
  Clock::time_point front_since_;  // when the task now in front could have started
  Deadline gate_expires_;          // of the gate in front, from when it was first found closed
  Status gate_failure_;            // not ok: the gate in front never opens
  uint64_t pushed_ = 0, completed_ = 0;
  bool running_ = false;
  std::thread::id runner_;
  int waiters_ = 0;
  bool worker_alive_ = false, nudged_ = false, stopped_ = false;
  bool stop_on_failure_ = false;
  Status error_;
  bool error_told_ = false;
};

// Tells the checker what a task is going to touch: now, or where the stream captures when it runs.
void NoteAccesses(const Stream& stream, const char* function, const std::vector<MemoryAccess>& accesses,
                  Task* task);

// Drops what is queued on every live stream of a device and waits for what runs. False if the deadline
// passed.
bool AbortAllStreams(int device, Deadline deadline = std::nullopt);

// Drains every live stream of a device, or of all devices (-1), until the deadline has passed. What kept it
// from draining the first one that it could not drain, else kDone.
Stream::Wait DrainAllStreams(int device, Deadline deadline = std::nullopt, AtGates gates = AtGates::kWait);

// The first failure of a task on any live stream of a device that was not told here before.
Status TellErrors(int device);

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_STREAM_H_
