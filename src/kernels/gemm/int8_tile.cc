// 8-bit tiles without VNNI: both operands are widened to 16 bits, whose products are added in pairs.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/int8_tile.cc"
#include <algorithm>
#include <cstring>

#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/int8_internal.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D16 = hn::ScalableTag<int16_t>;
using D32 = hn::ScalableTag<int32_t>;
// A vector holds the four k of this many columns, and each of its sums two of them: the two that lie side by
// side, which ReorderWidenMulAccumulate leaves open but every x86 target does (its second sum stays 0).
static_assert(HWY_ARCH_X86, "the sums of a column are taken from neighbouring lanes");
constexpr int64_t kCols = static_cast<int64_t>(hn::MaxLanes(D16())) / kInt8Group;
constexpr int kVectors = 2, kRows = 4;

template <int R>
void Block(const Int8Tile& t, int64_t row, int64_t col) {
  const D16 d16;
  const D32 d32;
  const hn::Rebind<int8_t, D16> d8;
  const hn::Rebind<uint8_t, D16> du8;
  const hn::Repartition<uint32_t, decltype(du8)> du32;
  hn::Vec<D32> acc[R][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = hn::Zero(d32);
  hn::Vec<D32> none = hn::Zero(d32);
  const uint8_t* a = t.a + row * kInt8Group;
  const int8_t* b = t.b + col * kInt8Group;
  for (int64_t g = 0; g < t.groups; ++g) {
    const auto b0 = hn::PromoteTo(d16, hn::LoadU(d8, b));
    const auto b1 = hn::PromoteTo(d16, hn::LoadU(d8, b + kCols * kInt8Group));
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      uint32_t four;
      memcpy(&four, a + i * kInt8Group, sizeof(four));
      const auto x = hn::PromoteTo(d16, hn::BitCast(du8, hn::Set(du32, four)));
      acc[i][0] = hn::ReorderWidenMulAccumulate(d32, x, b0, acc[i][0], none);
      acc[i][1] = hn::ReorderWidenMulAccumulate(d32, x, b1, acc[i][1], none);
    }
    a += t.rows * kInt8Group;
    b += kInt8Cols * kInt8Group;
  }
  HWY_ALIGN uint32_t halves[2 * kVectors * kCols];
  const int64_t cols = std::min(kVectors * kCols, t.cols - col);
  for (int i = 0; i < R; ++i) {
    hn::Store(acc[i][0], d32, reinterpret_cast<int32_t*>(halves));
    hn::Store(acc[i][1], d32, reinterpret_cast<int32_t*>(halves) + 2 * kCols);
    int32_t* c = t.c + (row + i) * t.ldc + col;
    for (int64_t j = 0; j < cols; ++j) {
      const uint32_t sum = halves[2 * j] + halves[2 * j + 1];
      c[j] = static_cast<int32_t>(t.accumulate ? sum + static_cast<uint32_t>(c[j]) : sum);
    }
  }
}

void Int8TileKernel(const Int8Tile& t) {
  for (int64_t col = 0; col < t.cols; col += kVectors * kCols) {
    int64_t row = 0;
    for (; row + kRows <= t.rows; row += kRows) Block<kRows>(t, row, col);
    for (; row < t.rows; ++row) Block<1>(t, row, col);
  }
}

void PackInt8RowsKernel(const uint8_t* src, int64_t row_stride, int64_t groups, uint8_t flip, uint8_t* dst) {
  const hn::Full128<uint8_t> d;
  const hn::Full128<uint16_t> d16;
  const auto sign = hn::Set(d, flip);
  for (int64_t g = 0; g < groups; ++g, src += kInt8Group * row_stride) {
#pragma GCC unroll 2
    for (int64_t j = 0; j < kInt8Cols; j += 16, dst += 16 * kInt8Group) {
      const auto r0 = hn::Xor(hn::LoadU(d, src + j), sign);
      const auto r1 = hn::Xor(hn::LoadU(d, src + row_stride + j), sign);
      const auto r2 = hn::Xor(hn::LoadU(d, src + 2 * row_stride + j), sign);
      const auto r3 = hn::Xor(hn::LoadU(d, src + 3 * row_stride + j), sign);
      const auto lo01 = hn::BitCast(d16, hn::InterleaveLower(d, r0, r1));
      const auto lo23 = hn::BitCast(d16, hn::InterleaveLower(d, r2, r3));
      const auto hi01 = hn::BitCast(d16, hn::InterleaveUpper(d, r0, r1));
      const auto hi23 = hn::BitCast(d16, hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, lo01, lo23)), d, dst);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, lo01, lo23)), d, dst + 16);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, hi01, hi23)), d, dst + 32);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, hi01, hi23)), d, dst + 48);
    }
  }
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(Int8TileKernel);
OPSNN_TIER_TABLE(PackInt8RowsKernel);
Int8TileFn Int8TileForTier() { return OPSNN_TIER_CALL(Int8TileKernel); }
void PackInt8Rows(const uint8_t* src, int64_t row_stride, int64_t groups, uint8_t flip, uint8_t* dst) {
  OPSNN_TIER_CALL(PackInt8RowsKernel)(src, row_stride, groups, flip, dst);
}
}  // namespace opsnn::gemm
#endif
