#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace opsnn {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void* AllocateAligned(size_t bytes) {
  const size_t align = bytes >= kHugePage ? kHugePage : kAlignment;
  if (bytes > PTRDIFF_MAX - align) return nullptr;
  const size_t rounded = (bytes + align - 1) / align * align;
  void* p = std::aligned_alloc(align, rounded ? rounded : align);
  // Asked for only: where huge pages are off the call fails and nothing changes.
  if (p && align == kHugePage) madvise(p, rounded, MADV_HUGEPAGE);
  return p;
}

void FreeAligned(void* p, size_t) { std::free(p); }

}  // namespace opsnn
