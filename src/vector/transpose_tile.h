// A block of f32 turned on its side: rows that lie in the columns of memory are brought into rows for the
// passes.
#ifndef OPSNN_VECTOR_TRANSPOSE_TILE_H_
#define OPSNN_VECTOR_TRANSPOSE_TILE_H_

#include <cstdint>

namespace opsnn::vector {

// dst[r * dst_stride + c] = src[c * src_stride + r] for r < rows, c < cols. No overlap.
void TransposeTile(const float* src, int64_t src_stride, float* dst, int64_t dst_stride, int64_t rows,
                   int64_t cols);

}  // namespace opsnn::vector

#endif  // OPSNN_VECTOR_TRANSPOSE_TILE_H_
