// Streaming (non-temporal) stores: when to use them, and the fence behind them.
#ifndef OPSNN_VECTOR_STREAMING_H_
#define OPSNN_VECTOR_STREAMING_H_

#include <cstdint>

namespace opsnn::vector {

// Results from this many bytes on are written past the caches.
int64_t StreamingThreshold();
// While it lives, operators that this thread runs write parts of a result of `bytes`: what counts against the
// threshold is the whole.
class PartOfResult {
 public:
  explicit PartOfResult(int64_t bytes);
  ~PartOfResult();
  PartOfResult(const PartOfResult&) = delete;
  PartOfResult& operator=(const PartOfResult&) = delete;
  static int64_t Bytes();  // of the innermost that lives, else 0

 private:
  int64_t outer_;
};
// Makes streamed data visible to other threads; once per task.
void FlushStreams();

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_STREAMING_H_
