// Between the driver of 8-bit products and its tier files. Not for other modules.
#ifndef OPSNN_KERNELS_GEMM_INT8_INTERNAL_H_
#define OPSNN_KERNELS_GEMM_INT8_INTERNAL_H_

#include <cstdint>

#include "isa/tier.h"
#include "kernels/gemm/int8.h"
#include "kernels/gemm/internal.h"

namespace opsnn::gemm {

// 28 accumulators of 32 registers, as for f32; narrower tiers cut these tiles up.
inline constexpr int64_t kInt8Rows = 14, kInt8Cols = 32;

// rows x cols of C (+)= A x B over `groups` groups of k, then plus the terms of its row and column.
struct Int8Tile {
  int64_t rows = 0, cols = 0, groups = 0;
  const uint8_t* a = nullptr;      // group g of row i at a + i * a_row + g * a_group
  int64_t a_row = 0, a_group = 0;  // bytes
  const uint8_t* b = nullptr;      // [group][kInt8Cols][kInt8Group]
  bool a_signed = false;           // A is s8 and B u8; else A is u8 and B s8
  int32_t* c = nullptr;
  int64_t ldc = 0;
  bool accumulate = false;
  const int32_t *row_terms = nullptr, *col_terms = nullptr;  // null: zero
};
using Int8TileFn = void (*)(const Int8Tile&);
Int8TileFn Int8TileForTier();  // widening to 16 bits
Int8TileFn Int8TileVnni();     // null where it is not compiled; needs isa::HasVnni()
// One column, whose bytes lie side by side at b, of rows whose groups do too. Null and needs as above.
Int8TileFn Int8DotsVnni();

// dst[group][column][k] = src[(4 group + k) * row_stride + column] ^ flip, for whole groups and kInt8Cols
// columns.
void PackInt8Rows(const uint8_t* src, int64_t row_stride, int64_t groups, uint8_t flip, uint8_t* dst);
// sums[i] = the sum of the n bytes at x + i * row_stride, for `rows` rows.
void SumInt8Rows(const uint8_t* x, int64_t row_stride, int64_t rows, int64_t n, bool is_signed,
                 int32_t* sums);
using Int8SumsFn = void (*)(const uint8_t*, int64_t, int64_t, int64_t, bool, int32_t*);
Int8SumsFn Int8SumsVnni();  // the same; null where it is not compiled; needs isa::HasVnni()

// How many threads so many multiply-adds are worth: VNNI does four for every lane, tiers without it two in
// half of their instructions.
inline int Int8ThreadsFor(int64_t work) { return ThreadsFor(work, isa::HasVnni() ? 4 : 1); }

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INT8_INTERNAL_H_
