// Streaming (non-temporal) stores: when to use them, and the fence behind them.
#ifndef OPSNN_VECTOR_STREAMING_H_
#define OPSNN_VECTOR_STREAMING_H_

#include <cstdint>

namespace opsnn::vector {

// Results from this many bytes on are written past the caches.
int64_t StreamingThreshold();
// Makes streamed data visible to other threads; once per task.
void FlushStreams();

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_STREAMING_H_
