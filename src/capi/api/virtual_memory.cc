// Virtual addresses apart from physical memory: reserve, allocate, map. Physical memory is an anonymous file
// of the system, so that it may be mapped more than once.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "capi/acl_exports.h"
#include "capi/api/reserved.h"
#include "capi/boundary.h"
#include "runtime/check.h"
#include "runtime/stream.h"

namespace opsnn::capi {
namespace {

// Devices map in pages of 2 MiB; programs round their sizes to what this says.
constexpr size_t kGranularity = size_t{2} << 20;

struct Physical {
  int file = -1;
  size_t bytes = 0;
  aclrtPhysicalMemProp prop{};
  int handles = 1, mappings = 0;  // lives while there is either
};

struct Mapping {
  size_t bytes = 0;
  Physical* memory = nullptr;
};

struct Reservation {
  size_t bytes = 0;
  std::map<char*, Mapping> mappings;
};

struct State {
  std::mutex mutex;
  std::map<const void*, std::unique_ptr<Physical>> physical;  // by handle, which is the object's address
  std::map<char*, Reservation> reserved;
  std::atomic<size_t> num_reserved{0};  // so that programs without any do not pay for the lock
};
State& Memory() {
  static auto* state = new State;  // mappings live as long as the process
  return *state;
}

int Bad(const char* function, const std::string& message) {
  return Fail(function, ACL_ERROR_INVALID_PARAM, message);
}

int SystemError(const char* function, const char* what, size_t bytes) {
  return Fail(function, ACL_ERROR_RT_MEMORY_ALLOCATION,
              StrFormat("%s of %zu bytes failed: %s", what, bytes, std::strerror(errno)));
}

// The reservation that holds [at, at + bytes), or null.
Reservation* Around(State& s, char* at, size_t bytes, char** base) {
  auto it = s.reserved.upper_bound(at);
  if (it == s.reserved.begin()) return nullptr;
  --it;
  const auto offset = static_cast<size_t>(at - it->first);
  if (offset >= it->second.bytes || bytes > it->second.bytes - offset) return nullptr;
  *base = it->first;
  return &it->second;
}

void Drop(State& s, Physical* memory, int* count) {
  --*count;
  if (memory->handles + memory->mappings > 0) return;
  close(memory->file);
  s.physical.erase(memory);
}

int Reserve(const char* function, void** pointer, size_t size, size_t alignment, void* expected) {
  if (!pointer) return Bad(function, "virPtr is null; it must point to the result");
  *pointer = nullptr;
  if (size == 0 || size > SIZE_MAX / 2) {
    return Bad(function, StrFormat("size is %zu; allowed: 1 to half of the address space", size));
  }
  if (alignment > kGranularity || (alignment & (alignment - 1)) != 0) {
    return Bad(function, StrFormat("alignment is %zu; allowed: 0, or powers of two up to %zu", alignment,
                                   kGranularity));
  }
  // Room to move the start up to a page of the device.
  const size_t bytes = (size + kGranularity - 1) / kGranularity * kGranularity, room = bytes + kGranularity;
  void* p = mmap(expected, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return SystemError(function, "reserving", size);
  const auto start = reinterpret_cast<uintptr_t>(p);
  const uintptr_t aligned = (start + kGranularity - 1) / kGranularity * kGranularity;
  if (aligned > start) munmap(p, aligned - start);
  const size_t behind = start + room - (aligned + bytes);
  if (behind > 0) munmap(reinterpret_cast<void*>(aligned + bytes), behind);
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  s.reserved[reinterpret_cast<char*>(aligned)].bytes = bytes;
  s.num_reserved = s.reserved.size();
  *pointer = reinterpret_cast<void*>(aligned);
  return ACL_SUCCESS;
}

// Puts a hole back where a mapping was.
bool Unmap(char* at, size_t bytes) {
  return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) !=
         MAP_FAILED;
}

int FindPhysical(const char* function, State& s, aclrtDrvMemHandle handle, Physical** memory) {
  auto it = s.physical.find(handle);
  if (it == s.physical.end() || it->second->handles == 0) {
    return Bad(function, StrFormat("handle %p is no live physical memory", handle));
  }
  *memory = it->second.get();
  return ACL_SUCCESS;
}

}  // namespace

bool AnyReserved() { return Memory().num_reserved.load(std::memory_order_relaxed) > 0; }

const char* FindHole(const char* at, size_t bytes) {
  if (!AnyReserved() || bytes == 0) return nullptr;
  State& s = Memory();
  const auto start_of = reinterpret_cast<uintptr_t>(at);
  const auto* const end = reinterpret_cast<const char*>(start_of + std::min(bytes, UINTPTR_MAX - start_of));
  std::lock_guard lock(s.mutex);
  for (const auto& [base, reservation] : s.reserved) {
    const char *next = std::max<const char*>(at, base),
               *last = std::min<const char*>(end, base + reservation.bytes);
    for (const auto& [start, mapping] : reservation.mappings) {
      if (next >= start && next < start + mapping.bytes) next = start + mapping.bytes;
    }
    if (next < last) return next;
  }
  return nullptr;
}

OPSNN_ACL_API aclError aclrtReserveMemAddress(void** virPtr, size_t size, size_t alignment, void* expectPtr,
                                              uint64_t flags) {
  static_cast<void>(flags);  // asks for huge pages, which the system gives where it can
  return Reserve("aclrtReserveMemAddress", virPtr, size, alignment, expectPtr);
}

OPSNN_ACL_API aclError aclrtReserveMemAddressNoUCMemory(void** virPtr, size_t size, size_t alignment,
                                                        void* expectPtr, uint64_t flags) {
  static_cast<void>(flags);
  return Reserve("aclrtReserveMemAddressNoUCMemory", virPtr, size, alignment, expectPtr);
}

OPSNN_ACL_API aclError aclrtReleaseMemAddress(void* virPtr) {
  static const char* const kApi = "aclrtReleaseMemAddress";
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  auto it = s.reserved.find(static_cast<char*>(virPtr));
  if (it == s.reserved.end()) return Bad(kApi, StrFormat("virPtr %p is no reserved address", virPtr));
  if (!it->second.mappings.empty()) {
    return Bad(kApi,
               StrFormat("virPtr %p has %zu mappings; unmap them first", virPtr, it->second.mappings.size()));
  }
  munmap(virPtr, it->second.bytes);
  s.reserved.erase(it);
  s.num_reserved = s.reserved.size();
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMallocPhysical(aclrtDrvMemHandle* handle, size_t size,
                                           const aclrtPhysicalMemProp* prop, uint64_t flags) {
  static const char* const kApi = "aclrtMallocPhysical";
  static_cast<void>(flags);
  if (!handle || !prop) return Bad(kApi, StrFormat("%s is null; it is required", handle ? "prop" : "handle"));
  *handle = nullptr;
  if (size == 0 || size % kGranularity != 0 || size > SIZE_MAX / 2) {
    return Bad(kApi, StrFormat("size is %zu; allowed: multiples of %zu, see aclrtMemGetAllocationGranularity",
                               size, kGranularity));
  }
  const int file = memfd_create("opsnn", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) {
    const int code = SystemError(kApi, "allocating", size);
    if (file >= 0) close(file);
    return code;
  }
  auto memory = std::make_unique<Physical>();
  memory->file = file;
  memory->bytes = size;
  memory->prop = *prop;
  *handle = memory.get();
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  s.physical[*handle] = std::move(memory);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  Physical* memory = nullptr;
  if (int code = FindPhysical("aclrtFreePhysical", s, handle, &memory)) return code;
  Drop(s, memory, &memory->handles);  // the memory lives on as long as it is mapped
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMapMem(void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
                                   uint64_t flags) {
  static const char* const kApi = "aclrtMapMem";
  static_cast<void>(flags);
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  Physical* memory = nullptr;
  if (int code = FindPhysical(kApi, s, handle, &memory)) return code;
  auto* at = static_cast<char*>(virPtr);
  char* base = nullptr;
  Reservation* around = Around(s, at, size, &base);
  if (!around) return Bad(kApi, StrFormat("virPtr %p with %zu bytes is not reserved", virPtr, size));
  if (size == 0 || size % kGranularity || offset % kGranularity || (at - base) % kGranularity ||
      offset > memory->bytes || size > memory->bytes - offset) {
    return Bad(
        kApi, StrFormat("size is %zu and offset %zu; allowed: multiples of %zu inside the memory's %zu", size,
                        offset, kGranularity, memory->bytes));
  }
  for (const auto& [start, m] : around->mappings) {
    if (at < start + m.bytes && start < at + size) {
      return Bad(kApi, StrFormat("virPtr %p with %zu bytes overlaps the mapping at %p", virPtr, size, start));
    }
  }
  if (mmap(virPtr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->file,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    return SystemError(kApi, "mapping", size);
  }
  ++memory->mappings;
  around->mappings[at] = {size, memory};
  runtime::NoteMapped(virPtr, size);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtUnmapMem(void* virPtr) {
  static const char* const kApi = "aclrtUnmapMem";
  // Queued work may still use it; a program that forgot to synchronise must not crash.
  // What still waits for a notify is not waited for.
  if (!runtime::Stream::InsideTask()) runtime::DrainAllStreams(-1, std::nullopt, runtime::AtGates::kGiveUp);
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  auto* at = static_cast<char*>(virPtr);
  char* base = nullptr;
  Reservation* around = Around(s, at, 1, &base);
  const auto it = around ? around->mappings.find(at) : std::map<char*, Mapping>::iterator();
  if (!around || it == around->mappings.end()) {
    return Bad(kApi, StrFormat("virPtr %p is not the start of a mapping", virPtr));
  }
  if (!Unmap(at, it->second.bytes)) return SystemError(kApi, "unmapping", it->second.bytes);
  Drop(s, it->second.memory, &it->second.memory->mappings);
  around->mappings.erase(it);
  runtime::NoteUnmapped(virPtr);
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp* prop,
                                                        aclrtMemGranularityOptions option,
                                                        size_t* granularity) {
  static const char* const kApi = "aclrtMemGetAllocationGranularity";
  if (!prop || !granularity) {
    return Bad(kApi, StrFormat("%s is null; it is required", prop ? "granularity" : "prop"));
  }
  if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return Bad(kApi, StrFormat("option is %d; allowed: 0, 1", int{option}));
  }
  *granularity = kGranularity;
  return ACL_SUCCESS;
}

OPSNN_ACL_API aclError aclrtMemRetainAllocationHandle(void* virPtr, aclrtDrvMemHandle* handle) {
  static const char* const kApi = "aclrtMemRetainAllocationHandle";
  if (!handle) return Bad(kApi, "handle is null; it must point to the result");
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  auto* at = static_cast<char*>(virPtr);
  char* base = nullptr;
  if (Reservation* around = Around(s, at, 1, &base)) {
    for (const auto& [start, m] : around->mappings) {
      if (at < start || at >= start + m.bytes) continue;
      ++m.memory->handles;
      *handle = m.memory;
      return ACL_SUCCESS;
    }
  }
  return Bad(kApi, StrFormat("virPtr %p is not mapped", virPtr));
}

OPSNN_ACL_API aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
                                                                 aclrtPhysicalMemProp* prop) {
  static const char* const kApi = "aclrtMemGetAllocationPropertiesFromHandle";
  if (!prop) return Bad(kApi, "prop is null; it must point to the result");
  State& s = Memory();
  std::lock_guard lock(s.mutex);
  Physical* memory = nullptr;
  if (int code = FindPhysical(kApi, s, handle, &memory)) return code;
  *prop = memory->prop;
  return ACL_SUCCESS;
}

}  // namespace opsnn::capi
