// What fuzz_runtime calls, and what its programs hold.
#ifndef TESTS_FUZZ_RUNTIME_CALLS_H_
#define TESTS_FUZZ_RUNTIME_CALLS_H_

#include <vector>

#include "acl/acl.h"
#include "fuzz/source.h"

namespace opsnn::fuzz {

constexpr size_t kArena = 8192;

// Handles stay in their pools after they were ended.
struct Program {
  Program(const uint8_t* data, size_t size, char* memory) : source(data, size), arena(memory) {}
  // A call has answered: what it promises about failures holds.
  void Check(int code, const char* function);
  // A handle of any kind, live or not, or no handle.
  void* Any();
  // Mostly one of the pool.
  void* From(const std::vector<void*>& pool);
  aclrtStream Stream();
  // A place in the device memory that lives for ever, and how many bytes to touch there.
  char* Arena(size_t* bytes);
  // By reference: the call that gives the code sets the handle.
  static void Keep(std::vector<void*>& pool, int code, void* const& handle) {
    if (!code && handle) pool.push_back(handle);
  }

  Source source;
  char* arena;
  std::vector<void*> streams, events, contexts, models, blocks, executors, reserved, mapped, physical,
      notifies, counters, registered;
  // A stream may wait for what never comes: from now on nothing is waited for without a timeout.
  bool blocked = false;
  long long accepted = 0, refused = 0;
};

size_t NumCalls();
// Draws a call and makes it.
void RunCall(Program& p);
// Ends what runtime_calls.cc alone knows of.
void ClearMore(Program& p);

}  // namespace opsnn::fuzz

#endif  // TESTS_FUZZ_RUNTIME_CALLS_H_
