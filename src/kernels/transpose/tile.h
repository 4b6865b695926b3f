// The 2-D core of every data movement that turns rows into columns.
#ifndef OPSNN_KERNELS_TRANSPOSE_TILE_H_
#define OPSNN_KERNELS_TRANSPOSE_TILE_H_

#include <cstdint>

namespace opsnn::kernels {

// dst[c * dst_stride + r * elem_bytes] = src[r * src_stride + c * elem_bytes] for r < rows, c < cols.
// Strides are in bytes, of any sign and alignment; src and dst do not overlap. One thread.
struct Transpose2DParams {
  int elem_bytes = 4;  // 1, 2, 4 or 8
  int64_t rows = 0, cols = 0;
  const void* src = nullptr;
  int64_t src_stride = 0;
  void* dst = nullptr;
  int64_t dst_stride = 0;
  bool stream = false;  // write around the caches where the alignment allows it
  // How blocks are streamed: small ones whose successor is fetched into L1 as they are copied, tall ones
  // whose successor is fetched into L2 as they are turned, strips of a source without gaps (tall ones where
  // it has some), or what was faster in the first large calls.
  enum class Blocks : uint8_t { kMeasured, kSmall, kTall, kStrips };
  Blocks blocks = Blocks::kMeasured;
  const void* next = nullptr;  // the source of what this thread turns next, of the same shape; null: unknown
  bool flush = true;           // false: whoever streams flushes (vector/streaming.h)
};
void Transpose2D(const Transpose2DParams& p);

}  // namespace opsnn::kernels

#endif  // OPSNN_KERNELS_TRANSPOSE_TILE_H_
