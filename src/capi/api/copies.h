// Copies, checked and queued alike for every function that makes them.
#ifndef OPSNN_CAPI_API_COPIES_H_
#define OPSNN_CAPI_API_COPIES_H_

#include <cstddef>

#include "acl/acl_rt.h"
#include "runtime/memory.h"

namespace opsnn::capi {

// A block of memory for the program, or a code.
int Malloc(const char* function, void** pointer, size_t size, runtime::MemoryKind kind);

// Rows of `width` bytes.
struct Copy {
  char* to;
  const char* from;
  size_t to_pitch, from_pitch, width, rows;
};
inline Copy Flat(void* dst, const void* src, size_t count) {
  return {static_cast<char*>(dst), static_cast<const char*>(src), 0, 0, count, 1};
}

// `bytes` from p on stay inside the live block that p belongs to; memory that was not allocated here cannot
// be judged.
int CheckRoom(const char* function, const char* argument, const void* p, size_t bytes);
// The arguments of a copy of `count` bytes.
int CheckCopy(const char* function, void* dst, size_t dest_max, const void* src, size_t count,
              aclrtMemcpyKind kind);
// Copies now, on this thread.
void CopyHere(const char* function, const Copy& copy);
// Copies on the stream.
int QueueCopy(const char* function, const Copy& copy, aclrtStream stream);

}  // namespace opsnn::capi

#endif  // OPSNN_CAPI_API_COPIES_H_
