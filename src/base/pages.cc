#include "base/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace opsnn {

void* MapPages(size_t bytes) {
  if (bytes > PTRDIFF_MAX - kHugePageBytes) return nullptr;
  const bool huge = bytes >= kHugePageBytes;
  const size_t span = huge ? bytes + kHugePageBytes : bytes;
  void* p = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (!huge) return p;
  const auto begin = reinterpret_cast<uintptr_t>(p);
  const uintptr_t at = (begin + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (at > begin) munmap(p, at - begin);
  if (begin + span > at + bytes) munmap(reinterpret_cast<void*>(at + bytes), begin + span - at - bytes);
  return reinterpret_cast<void*>(at);
}

void AskForHugePages(void* data, size_t bytes) { madvise(data, bytes, MADV_HUGEPAGE); }

void UnmapPages(void* data, size_t bytes) { munmap(data, bytes); }

}  // namespace opsnn
