// What AllocateAligned gave out, for accounts of memory and for tests.
#ifndef OPSNN_BASE_BUFFER_STATS_H_
#define OPSNN_BASE_BUFFER_STATS_H_

#include <cstdint>

namespace opsnn {

// Bytes that the calling thread asked for less those that it gave back; only differences mean something.
int64_t ThreadBufferBytes();

// Bytes that all threads together asked for and did not give back.
int64_t LiveBufferBytes();

// Bytes of freed blocks that wait to be given out again.
int64_t IdleBufferBytes();

}  // namespace opsnn

#endif  // OPSNN_BASE_BUFFER_STATS_H_
