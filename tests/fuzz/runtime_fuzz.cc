// Bytes as a program of runtime calls: devices, contexts, streams, events, captures, models, memory, mappings
// and executors, with handles that are live, ended, null, of another kind or nothing at all. Every call
// answers; one that fails leaves a message; nothing hangs, crashes or leaks.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "aclnnop/aclnn_relu.h"
#include "fuzz/fuzz.h"
#include "fuzz/runtime_calls.h"
#include "fuzz/source.h"

namespace opsnn::fuzz {

void Program::Check(int code, const char* function) {
  ++(code ? refused : accepted);
  if (!code) return;
  const char* message = aclGetRecentErrMsg();
  Require(message != nullptr, "a refused call leaves a message:", function);
  Require(std::strstr(message, function) != nullptr, function, std::string("is not named in: ") + message);
}

void* Program::Any() {
  const size_t choice = source.Choice(8);
  if (choice == 0) return nullptr;
  if (choice == 1) return reinterpret_cast<void*>(uintptr_t{source.Byte()} << 48 | source.Byte());
  // Of another kind, or ended; most often both are few, so that a real one comes up.
  std::vector<void*>* pools[] = {&streams, &events, &contexts, &models, &blocks, &executors};
  std::vector<void*>& pool = *pools[source.Choice(std::size(pools))];
  return pool.empty() ? nullptr : pool[source.Choice(pool.size())];
}

void* Program::From(const std::vector<void*>& pool) {
  const uint8_t b = source.Byte();
  if (pool.empty() || b % 16 == 15) return Any();
  return pool[b / 16 % pool.size()];
}

aclrtStream Program::Stream() { return source.Byte() % 8 == 7 ? nullptr : From(streams); }

char* Program::Arena(size_t* bytes) {
  const size_t offset = size_t{source.Byte()} * 16;
#if defined(__SANITIZE_THREAD__)
  // Programs let streams write one place in any order: races of their own, so nothing is touched here.
  static constexpr size_t kSizes[] = {0, SIZE_MAX, SIZE_MAX / 2};
#else
  // Sometimes more than there is: that must be refused.
  static constexpr size_t kSizes[] = {0, 1, 4, 16, 64, 100, 256, 4096, 5000, SIZE_MAX, SIZE_MAX / 2};
#endif
  *bytes = kSizes[source.Choice(std::size(kSizes))];
  return arena + offset;
}

namespace {

struct Device {
  Device() {
    aclInit(nullptr);
    Require(aclrtSetDevice(0) == 0, "a device");
    Require(aclrtMalloc(reinterpret_cast<void**>(&arena), kArena, ACL_MEM_MALLOC_HUGE_FIRST) == 0, "memory");
    std::memset(arena, 0, kArena);
  }
  ~Device() { std::printf("%lld calls accepted, %lld refused\n", accepted, refused); }
  char* arena = nullptr;
  long long accepted = 0, refused = 0;
};

// Ends what the default stream of the present context records.
void DropCapture() {
  aclmdlRI model = nullptr;
  if (aclmdlRICaptureEnd(nullptr, &model) == 0) aclmdlRIDestroy(model);
}

// Ends everything, so that the next program starts afresh and what is left is a leak.
void Clear(Program& p) {
  aclrtSetDevice(0);
  for (aclrtStream s : p.streams) aclrtStreamAbort(s);
  for (void* s : p.streams) aclrtDestroyStreamForce(s);
  for (void* e : p.executors) aclDestroyAclOpExecutor(static_cast<aclOpExecutor*>(e));
  for (void* m : p.models) aclmdlRIDestroy(m);
  for (void* e : p.events) aclrtDestroyEvent(e);
  for (void* c : p.contexts) aclrtDestroyContext(c);
  for (void* b : p.blocks) {
    if (aclrtFree(b)) aclrtFreeHost(b);
  }
  ClearMore(p);
  DropCapture();
  aclrtResetDeviceForce(0);
  // The stream of programs that set no device: what it recorded would otherwise come up in another program.
  DropCapture();
  aclrtStreamAbort(nullptr);
  aclrtSetDevice(0);
  Require(aclrtSynchronizeDeviceWithTimeout(10000) == 0, "what a program began can be ended");
  aclrtResetDeviceForce(0);
  aclGetRecentErrMsg();
}

}  // namespace

std::vector<std::string> Seeds() {
  // A program is a list of bytes: a call, then what it draws. Most bytes are fitting calls, so long runs of
  // every call with small choices behind it make good beginnings.
  std::vector<std::string> seeds;
  const size_t calls = NumCalls();
  for (size_t first = 0; first < calls; ++first) {
    std::string s;
    for (size_t k = 0; k < 24; ++k) {
      s += static_cast<char>((first + k * (1 + first % 7)) % calls);
      s.append(4, static_cast<char>(k % 3));
    }
    seeds.push_back(s);
  }
  return seeds;
}

}  // namespace opsnn::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace opsnn::fuzz;  // NOLINT
  static Device device;
  Program p(data, size, device.arena);
  constexpr int kMaxCalls = 80;  // models may run models: what a program can make grows with its length
  aclrtSetDevice(0);
  for (int n = 0; n < kMaxCalls && !p.source.empty(); ++n) RunCall(p);
  Clear(p);
  device.accepted += p.accepted;
  device.refused += p.refused;
  return 0;
}
