// What AllocateAligned gave out, for accounts of memory and for tests.
#ifndef OPSNN_BASE_BUFFER_STATS_H_
#define OPSNN_BASE_BUFFER_STATS_H_

#include <cstdint>

namespace opsnn {

// Bytes that the calling thread asked for less those that it gave back; only differences mean something.
int64_t ThreadBufferBytes();

// Bytes that all threads together asked for and did not give back.
int64_t LiveBufferBytes();

// Freed blocks that wait to be given out again: how scattered what they hold is.
struct IdleBlocks {
  int64_t count = 0, bytes = 0, largest = 0;
};
IdleBlocks IdleBuffers();
inline int64_t IdleBufferBytes() { return IdleBuffers().bytes; }

}  // namespace opsnn

#endif  // OPSNN_BASE_BUFFER_STATS_H_
