// Notifies: counters that streams set, and wait for.
//
// Other than an event, a notify may be waited for before it is recorded, and a wait can take what was
// recorded.
#ifndef OPSNN_RUNTIME_NOTIFY_H_
#define OPSNN_RUNTIME_NOTIFY_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/stream.h"

namespace opsnn::runtime {

class Notify {
 public:
  Notify() : id_(NextId()) {}
  uint32_t id() const { return id_; }

  enum class Change : uint8_t { kSet, kAdd, kOr, kAnd };  // additions wrap
  void Apply(Change change, uint32_t operand);

  enum class Condition : uint8_t { kLess, kEqual, kGreater, kGreaterEqual, kHasBits };
  // Does the counter meet the condition? Then `clear` makes it 0.
  bool Take(Condition condition, uint32_t operand, bool clear);

 private:
  static uint32_t NextId();
  const uint32_t id_;
  std::mutex mutex_;
  uint32_t value_ = 0;
};

// Queues the change.
void QueueChange(const char* name, const std::shared_ptr<Notify>& notify, Notify::Change change,
                 uint32_t operand, const std::shared_ptr<Stream>& stream);
// Lets the stream wait for the condition; for ever with a timeout of 0.
void QueueNotifyWait(const char* name, const std::shared_ptr<Notify>& notify, Notify::Condition condition,
                     uint32_t operand, bool clear, std::chrono::milliseconds timeout,
                     const std::shared_ptr<Stream>& stream);

// The same with 8 bytes of memory. kGreaterEqual: int64(*at - value) >= 0; kAnyBit: (*at & value) != 0;
// kNotAllBits: ~(*at | value) != 0.
enum class MemoryCondition : uint8_t { kGreaterEqual, kEqual, kAnyBit, kNotAllBits };
void QueueValueWrite(uint64_t* at, uint64_t value, const std::shared_ptr<Stream>& stream);
void QueueValueWait(const uint64_t* at, uint64_t value, MemoryCondition condition,
                    const std::shared_ptr<Stream>& stream);

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_NOTIFY_H_
