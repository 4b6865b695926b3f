// Many small memory copies at constant distances.
#ifndef OPSNN_KERNELS_TRANSPOSE_RUNS_H_
#define OPSNN_KERNELS_TRANSPOSE_RUNS_H_

#include <cstdint>

namespace opsnn::kernels {

// `count` copies of `bytes` bytes: from src + i * src_stride to dst + i * dst_stride (strides in bytes,
// source stride 0 repeats). No overlap. One thread.
struct Runs {
  const void* src;
  int64_t src_stride;
  void* dst;
  int64_t dst_stride;
  int64_t count;
  int64_t bytes;
  // Written past the caches, by whole lines: dst, dst_stride and bytes are multiples of 64. Whoever asks for
  // it flushes (vector/streaming.h).
  bool stream = false;
};
void CopyRuns(const Runs& r);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_TRANSPOSE_RUNS_H_
