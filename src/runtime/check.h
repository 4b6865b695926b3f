// The checker: what a program does wrong that the host forgives and a device does not. OPSNN_CHECK names what
// is looked for:
//   memory  host memory where device memory belongs
//   sync    results read, memory freed or reused before the work on it was waited for; two streams that touch
//           one buffer without an event between them
//   leak    objects and memory alive at aclFinalize, with where they were made
// Findings go to standard error, one line each, and the program goes on. Off, a check is one load.
//
// sync keeps a vector clock per stream: a task comes after what its stream, the events its stream waited for
// and the host before it have seen. Host threads count as one, because how they wait for each other is not
// known here: what is reported is wrong in any order of theirs.
#ifndef OPSNN_RUNTIME_CHECK_H_
#define OPSNN_RUNTIME_CHECK_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace opsnn::runtime {

enum CheckMode : uint32_t { kCheckMemory = 1, kCheckSync = 2, kCheckLeak = 4 };
extern std::atomic<uint32_t> check_modes;
inline bool Checks(CheckMode mode) { return (check_modes.load(std::memory_order_relaxed) & mode) != 0; }

// Prints "check: kind: text" and remembers it.
void ReportFinding(const char* kind, const std::string& text);
// The findings so far, forgotten. For tests.
std::vector<std::string> TakeFindings();

// ---- memory
// ------------------------------------------------------------------------------------------------ `bytes`
// bytes at p are handed to a device function as `argument`.
void CheckDevicePointer(const char* function, const char* argument, const void* p, int64_t bytes);
// Memory that is mapped, not allocated: device memory as well.
void NoteMapped(const void* p, size_t bytes);
void NoteUnmapped(const void* p);

// ---- sync
// --------------------------------------------------------------------------------------------------
struct MemoryAccess {
  const void* low = nullptr;
  const void* high = nullptr;  // one past the last byte
  bool write = false;
  bool dense = true;  // every byte between the two is touched
  const char* argument = "";
};
// A task of `function` was queued on the stream.
void CheckTask(int stream, const char* function, const std::vector<MemoryAccess>& accesses);
// The host itself touches memory.
void CheckHostAccess(const char* function, const MemoryAccess& access);
// A block goes away.
void CheckFreed(const char* function, const void* p, size_t bytes);
void NoteEventRecorded(uint32_t event, int stream);
void NoteEventAwaited(uint32_t event, int stream);  // by a stream
void NoteEventReached(uint32_t event);              // the host knows
// A notify may be waited for before it is recorded. Then, as behind values in memory, what comes after what
// is not known, and the stream's order against others is not judged until the host has waited for it.
void NoteNotifyRecorded(uint32_t notify, int stream);
void NoteNotifyAwaited(uint32_t notify, int stream);
void NoteUnknownOrder(int stream);
void NoteStreamDone(int stream);  // the host knows that all its work is done
void NoteAllDone();

// ---- leak
// --------------------------------------------------------------------------------------------------
void NoteMade(const char* what, const void* object, size_t bytes = 0);
void NoteEnded(const void* object);
void ReportLeaks();

}  // namespace opsnn::runtime

#endif  // OPSNN_RUNTIME_CHECK_H_
