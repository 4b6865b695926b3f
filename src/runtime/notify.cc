#include "runtime/notify.h"

#include <atomic>

namespace opsnn::runtime {
namespace {

struct NotifyChange {
  std::shared_ptr<Notify> notify;
  Notify::Change change;
  uint32_t operand;
};

struct NotifyWait {
  std::shared_ptr<Notify> notify;
  Notify::Condition condition;
  uint32_t operand;
  bool clear;
};

struct ValueTask {
  uint64_t* at;
  uint64_t value;
  MemoryCondition condition;
};

bool Holds(const ValueTask& t) {
  // The program may write the memory from any thread.
  const uint64_t now = __atomic_load_n(t.at, __ATOMIC_ACQUIRE);
  switch (t.condition) {
    case MemoryCondition::kGreaterEqual:
      return static_cast<int64_t>(now - t.value) >= 0;
    case MemoryCondition::kEqual:
      return now == t.value;
    case MemoryCondition::kAnyBit:
      return (now & t.value) != 0;
    case MemoryCondition::kNotAllBits:
      return ~(now | t.value) != 0;
  }
  return true;
}

}  // namespace

uint32_t Notify::NextId() {
  static std::atomic<uint32_t> next{0};
  return next++;
}

void Notify::Apply(Change change, uint32_t operand) {
  std::lock_guard lock(mutex_);
  switch (change) {
    case Change::kSet:
      value_ = operand;
      break;
    case Change::kAdd:
      value_ += operand;
      break;
    case Change::kOr:
      value_ |= operand;
      break;
    case Change::kAnd:
      value_ &= operand;
      break;
  }
}

bool Notify::Take(Condition condition, uint32_t operand, bool clear) {
  std::lock_guard lock(mutex_);
  bool holds = false;
  switch (condition) {
    case Condition::kLess:
      holds = value_ < operand;
      break;
    case Condition::kEqual:
      holds = value_ == operand;
      break;
    case Condition::kGreater:
      holds = value_ > operand;
      break;
    case Condition::kGreaterEqual:
      holds = value_ >= operand;
      break;
    case Condition::kHasBits:
      holds = (value_ & operand) == operand;
      break;
  }
  if (holds && clear) value_ = 0;
  return holds;
}

void QueueChange(const char* name, const std::shared_ptr<Notify>& notify, Notify::Change change,
                 uint32_t operand, const std::shared_ptr<Stream>& stream) {
  Task task;
  task.name = name;
  task.payload = std::make_shared<NotifyChange>(NotifyChange{notify, change, operand});
  task.run = [](const void* p) {
    const auto* c = static_cast<const NotifyChange*>(p);
    c->notify->Apply(c->change, c->operand);
    return OkStatus();
  };
  stream->Push(std::move(task));
}

void QueueNotifyWait(const char* name, const std::shared_ptr<Notify>& notify, Notify::Condition condition,
                     uint32_t operand, bool clear, std::chrono::milliseconds timeout,
                     const std::shared_ptr<Stream>& stream) {
  static constexpr Gate kCounted = {[](const void* p) {
                                      const auto* w = static_cast<const NotifyWait*>(p);
                                      return w->notify->Take(w->condition, w->operand, w->clear);
                                    },
                                    nullptr};
  Task task;
  task.name = name;
  task.payload = std::make_shared<NotifyWait>(NotifyWait{notify, condition, operand, clear});
  task.gate = &kCounted;
  task.timeout = timeout;
  stream->Push(std::move(task));
}

void QueueValueWrite(uint64_t* at, uint64_t value, const std::shared_ptr<Stream>& stream) {
  Task task;
  task.name = "aclrtValueWrite";
  task.payload = std::make_shared<ValueTask>(ValueTask{at, value, MemoryCondition::kEqual});
  task.run = [](const void* p) {
    const auto* t = static_cast<const ValueTask*>(p);
    __atomic_store_n(t->at, t->value, __ATOMIC_RELEASE);
    return OkStatus();
  };
  stream->Push(std::move(task));
}

void QueueValueWait(const uint64_t* at, uint64_t value, MemoryCondition condition,
                    const std::shared_ptr<Stream>& stream) {
  static constexpr Gate kHolds = {[](const void* p) { return Holds(*static_cast<const ValueTask*>(p)); },
                                  nullptr};
  Task task;
  task.name = "aclrtValueWait";
  task.payload = std::make_shared<ValueTask>(ValueTask{const_cast<uint64_t*>(at), value, condition});
  task.gate = &kHolds;
  stream->Push(std::move(task));
}

}  // namespace opsnn::runtime
