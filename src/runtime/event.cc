#include "runtime/event.h"

#include "runtime/capture.h"

namespace opsnn::runtime {

uint32_t Event::NextId() {
  static std::atomic<uint32_t> next{0};
  return next++;
}

Stream::Wait EventRecord::Await(Deadline deadline, AtGates gates) const {
  if (Done()) return Stream::Wait::kDone;
  return stream->DrainTo(ticket.load(std::memory_order_acquire), deadline, gates);
}

void Event::Record(const std::shared_ptr<Stream>& stream) {
  auto record = std::make_shared<EventRecord>();
  record->stream = stream;
  record->capture = stream->capture();
  Task task;
  task.name = "event record";
  task.payload = record;
  task.run = [](const void* payload) {
    auto* r = const_cast<EventRecord*>(static_cast<const EventRecord*>(payload));
    r->error = r->stream->Error();
    const int64_t now = Clock::now().time_since_epoch().count();
    r->nanoseconds.store(now ? now : 1, std::memory_order_release);
    return OkStatus();
  };
  // Under the lock, so that a wait that sees the record also sees its ticket.
  std::lock_guard lock(state_->mutex);
  record->ticket.store(stream->Push(std::move(task)), std::memory_order_release);
  state_->newest = std::move(record);
}

void Event::QueueWait(const std::shared_ptr<Stream>& stream, std::chrono::milliseconds timeout) const {
  // Asked under the lock of the waiting stream: must not take that of another.
  static constexpr Gate kReached = {[](const void* p) {
                                      const auto* r = static_cast<const EventRecord*>(p);
                                      return r->nanoseconds.load(std::memory_order_acquire) != 0 ||
                                             r->dropped;
                                    },
                                    [](const void* p, Deadline deadline, AtGates gates) {
                                      const auto* r = static_cast<const EventRecord*>(p);
                                      const Waited waited = r->Await(deadline, gates);
                                      if (waited == Waited::kDone)
                                        r->dropped = true;  // at the latest now there is nothing to wait for
                                      return waited;
                                    }};
  std::shared_ptr<const EventRecord> record = Newest();
  // A mark in a capture that goes on: the waiting stream records there too, behind it.
  if (record && record->capture && record->capture->Join(stream)) return;
  if (!record || record->stream == stream || record->Done()) return;
  Task task;
  task.name = "stream wait event";
  task.payload = record;
  task.gate = &kReached;
  task.timeout = timeout;
  stream->Push(std::move(task));
}

void Event::QueueReset(const std::shared_ptr<Stream>& stream) {
  struct Payload {
    std::shared_ptr<State> state;
    std::shared_ptr<EventRecord> record;
  };
  auto payload = std::make_shared<Payload>();
  payload->state = state_;
  {
    std::lock_guard lock(state_->mutex);
    payload->record = state_->newest;
  }
  Task task;
  task.name = "event reset";
  task.payload = payload;
  task.run = [](const void* p) {
    const auto* reset = static_cast<const Payload*>(p);
    std::lock_guard lock(reset->state->mutex);
    if (reset->state->newest == reset->record) reset->state->newest = nullptr;  // not recorded anew meanwhile
    return OkStatus();
  };
  stream->Push(std::move(task));
}

std::shared_ptr<const EventRecord> Event::Newest() const {
  std::lock_guard lock(state_->mutex);
  return state_->newest;
}

}  // namespace opsnn::runtime
