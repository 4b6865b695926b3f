// Events: marks in a stream that others can wait for and that carry a time.
#ifndef OPSNN_RUNTIME_EVENT_H_
#define OPSNN_RUNTIME_EVENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/stream.h"

namespace opsnn::runtime {

// One Record call: done when its stream has reached it.
struct EventRecord {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Capture> capture;  // that it was recorded in, if any
  std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> nanoseconds{0};       // steady clock, when the stream reached it; 0 before
  Status error;                              // of a task before it; set before nanoseconds
  mutable std::atomic<bool> dropped{false};  // its stream was told to give up before

  bool Done() const {
    return nanoseconds.load(std::memory_order_acquire) != 0 ||
           stream->Done(ticket.load(std::memory_order_acquire));
  }
  Stream::Wait Await(Deadline deadline, AtGates gates = AtGates::kWait) const;
  // What had failed before it when it was reached, as long as nobody has taken that from the stream.
  Status Error() const {
    return nanoseconds.load(std::memory_order_acquire) == 0 || stream->Error().ok() ? OkStatus() : error;
  }
};

class Event {
 public:
  explicit Event(uint32_t flags) : flags_(flags), id_(NextId()) {}
  uint32_t flags() const { return flags_; }
  uint32_t id() const { return id_; }

  // Queues a mark; a wait from now on is for this one.
  void Record(const std::shared_ptr<Stream>& stream);
  // Lets `stream` wait for the newest mark, for as long as the timeout says (0: for ever). An event that was
  // never recorded counts as reached.
  void QueueWait(const std::shared_ptr<Stream>& stream, std::chrono::milliseconds timeout = {}) const;
  // Forgets the newest mark once `stream` has come this far.
  void QueueReset(const std::shared_ptr<Stream>& stream);
  // The newest mark; null when there is none.
  std::shared_ptr<const EventRecord> Newest() const;

 private:
  static uint32_t NextId();
  const uint32_t flags_, id_;
  struct State {
    std::mutex mutex;
    std::shared_ptr<EventRecord> newest;
  };
  // Shared with queued resets, which may outlive the event.
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_EVENT_H_
