// Whole pages of memory straight from the system: the one place where large blocks come from. In the C
// library's heap they would leave holes when they go, and a process would hold more than its blocks.
#ifndef OPSNN_BASE_PAGES_H_
#define OPSNN_BASE_PAGES_H_

#include <cstddef>

namespace opsnn {

inline constexpr size_t kPageBytes = size_t{4} << 10, kHugePageBytes = size_t{2} << 20;

// `bytes` is a multiple of kPageBytes. From kHugePageBytes up the block starts on a huge page. Null when
// there is no memory. Zeros, not yet mapped to pages.
void* MapPages(size_t bytes);
// Has the system use huge pages for these bytes where it can; nothing happens where they are off.
void AskForHugePages(void* data, size_t bytes);
void UnmapPages(void* data, size_t bytes);

}  // namespace opsnn

#endif  // OPSNN_BASE_PAGES_H_
