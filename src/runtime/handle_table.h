// HandleTable<T>: opaque handles for the C API. A handle is not an address but a number with a type tag and a
// generation: one that is unknown, was destroyed (even if its slot is in use again) or belongs to another
// kind of object is recognised, never followed.
#ifndef OPSNN_RUNTIME_HANDLE_TABLE_H_
#define OPSNN_RUNTIME_HANDLE_TABLE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/check.h"

namespace opsnn::runtime {

enum class HandleKind : uint8_t {
  kNone,
  kTensor,
  kScalar,
  kIntArray,
  kFloatArray,
  kBoolArray,
  kTensorList,
  kScalarList,
  kExecutor,
  kStream,
  kEvent,
  kContext,
  kDataBuffer,
  kModel,
  kNotify,
  kCntNotify,
  kStreamConfig
};
const char* Name(HandleKind kind);  // "aclTensor"

// Bits of a handle: marker 8, kind 8, generation 24, slot 24. The marker makes it a non-canonical address, so
// that a program which follows one faults at once instead of reading something.
inline constexpr uint64_t kHandleMarker = 0x5A;
inline constexpr int kSlotBits = 24, kGenerationBits = 24;
// The kind that the bits of a handle claim, live or not; kNone for anything that is not a handle.
inline HandleKind KindOf(const void* handle) {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  if (bits >> 56 != kHandleMarker) return HandleKind::kNone;
  return static_cast<HandleKind>((bits >> 48) & 0xFF);
}

template <typename T, HandleKind kKind>
class HandleTable {
 public:
  // Null when 2^24 objects are alive.
  void* Insert(std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    uint32_t slot;
    if (free_.empty()) {
      if (entries_.size() >> kSlotBits) return nullptr;
      slot = static_cast<uint32_t>(entries_.size());
      entries_.emplace_back();
    } else {  // the slot that was freed longest ago: a stale handle stays recognisable for long
      slot = free_.front();
      free_.pop_front();
    }
    entries_[slot].object = std::move(object);
    ++live_;
    void* handle = Encode(slot, entries_[slot].generation);
    if (Checks(kCheckLeak) && kKind != HandleKind::kContext) NoteMade(Name(kKind), handle);
    return handle;
  }

  std::shared_ptr<T> Find(const void* handle) const {
    std::lock_guard lock(mutex_);
    const Entry* e = const_cast<HandleTable*>(this)->Lookup(handle);
    return e ? e->object : nullptr;
  }

  // Ends the handle and gives the object back; null when it is not live.
  std::shared_ptr<T> Remove(const void* handle) {
    std::lock_guard lock(mutex_);
    Entry* e = Lookup(handle);
    if (!e) return nullptr;
    e->generation = (e->generation + 1) & ((1u << kGenerationBits) - 1);
    free_.push_back(static_cast<uint32_t>(Bits(handle) & ((1u << kSlotBits) - 1)));
    --live_;
    if (Checks(kCheckLeak)) NoteEnded(handle);
    return std::move(e->object);
  }

  // Puts another object behind a live handle; false when it is not live.
  bool Replace(const void* handle, std::shared_ptr<T> object) {
    std::lock_guard lock(mutex_);
    Entry* e = Lookup(handle);
    if (e) e->object.swap(object);
    return e != nullptr;
  }

  std::vector<std::shared_ptr<T>> All() const {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (const Entry& e : entries_) {
      if (e.object) all.push_back(e.object);
    }
    return all;
  }
  size_t live() const {
    std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  struct Entry {
    std::shared_ptr<T> object;
    uint32_t generation = 0;
  };
  static uint64_t Bits(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }
  static void* Encode(uint64_t slot, uint64_t generation) {
    return reinterpret_cast<void*>(kHandleMarker << 56 | static_cast<uint64_t>(kKind) << 48 |
                                   generation << kSlotBits | slot);
  }
  Entry* Lookup(const void* handle) {
    if (KindOf(handle) != kKind) return nullptr;
    const uint64_t slot = Bits(handle) & ((1u << kSlotBits) - 1);
    const uint64_t generation = (Bits(handle) >> kSlotBits) & ((1u << kGenerationBits) - 1);
    if (slot >= entries_.size()) return nullptr;
    Entry& e = entries_[slot];
    return e.object && e.generation == generation ? &e : nullptr;
  }

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::deque<uint32_t> free_;
  size_t live_ = 0;
};

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_HANDLE_TABLE_H_
