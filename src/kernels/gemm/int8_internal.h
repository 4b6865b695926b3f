// Between the driver of 8-bit products and its tier files. Not for other modules.
#ifndef OPSNN_KERNELS_GEMM_INT8_INTERNAL_H_
#define OPSNN_KERNELS_GEMM_INT8_INTERNAL_H_

#include <cstdint>

namespace opsnn::gemm {

// 28 accumulators of 32 registers, as for f32; narrower tiers cut these tiles up.
inline constexpr int64_t kInt8Rows = 14, kInt8Cols = 32;
inline constexpr int64_t kInt8Group = 4;  // k per group

// rows x cols of C (+)= A x B over `groups` groups of k.
struct Int8Tile {
  int64_t rows = 0, cols = 0, groups = 0;
  const uint8_t* a = nullptr;  // [group][row][kInt8Group]
  const int8_t* b = nullptr;   // [group][kInt8Cols][kInt8Group]
  int32_t* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
};
using Int8TileFn = void (*)(const Int8Tile&);
Int8TileFn Int8TileForTier();  // widening to 16 bits
Int8TileFn Int8TileVnni();     // null where it is not compiled; needs isa::HasVnni()

// dst[group][column][k] = src[(4 group + k) * row_stride + column] ^ flip, for whole groups and kInt8Cols
// columns.
void PackInt8Rows(const uint8_t* src, int64_t row_stride, int64_t groups, uint8_t flip, uint8_t* dst);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INT8_INTERNAL_H_
