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

template <bool kSigned>
HWY_INLINE hn::Vec<D16> Widen(hn::Vec<hn::Rebind<uint8_t, D16>> x) {
  if constexpr (kSigned) return hn::PromoteTo(D16(), hn::BitCast(hn::Rebind<int8_t, D16>(), x));
  return hn::PromoteTo(D16(), x);
}

template <int R, bool kSignedA>
void Block(const Int8Tile& t, int64_t row, int64_t col) {
  const D32 d32;
  const hn::Rebind<uint8_t, D16> d8;
  const hn::Repartition<uint32_t, decltype(d8)> du32;
  hn::Vec<D32> acc[R][kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < R; ++i) acc[i][0] = acc[i][1] = hn::Zero(d32);
  hn::Vec<D32> none = hn::Zero(d32);
  const uint8_t* a = t.a + row * t.a_row;
  const uint8_t* b = t.b + col * kInt8Group;
  for (int64_t g = 0; g < t.groups; ++g) {
    const auto b0 = Widen<!kSignedA>(hn::LoadU(d8, b));
    const auto b1 = Widen<!kSignedA>(hn::LoadU(d8, b + kCols * kInt8Group));
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      uint32_t four;
      memcpy(&four, a + i * t.a_row, sizeof(four));
      const auto x = Widen<kSignedA>(hn::BitCast(d8, hn::Set(du32, four)));
      acc[i][0] = hn::ReorderWidenMulAccumulate(d32, x, b0, acc[i][0], none);
      acc[i][1] = hn::ReorderWidenMulAccumulate(d32, x, b1, acc[i][1], none);
    }
    a += t.a_group;
    b += kInt8Cols * kInt8Group;
  }
  HWY_ALIGN uint32_t halves[2 * kVectors * kCols];
  const int64_t cols = std::min(kVectors * kCols, t.cols - col);
  for (int i = 0; i < R; ++i) {
    hn::Store(acc[i][0], d32, reinterpret_cast<int32_t*>(halves));
    hn::Store(acc[i][1], d32, reinterpret_cast<int32_t*>(halves) + 2 * kCols);
    int32_t* c = t.c + (row + i) * t.ldc + col;
    const auto row_term = static_cast<uint32_t>(t.row_terms ? t.row_terms[row + i] : 0);
    for (int64_t j = 0; j < cols; ++j) {
      uint32_t sum = halves[2 * j] + halves[2 * j + 1] + row_term;
      if (t.col_terms) sum += static_cast<uint32_t>(t.col_terms[col + j]);
      c[j] = static_cast<int32_t>(t.accumulate ? sum + static_cast<uint32_t>(c[j]) : sum);
    }
  }
}

template <bool kSignedA>
void Tile(const Int8Tile& t) {
  for (int64_t col = 0; col < t.cols; col += kVectors * kCols) {
    int64_t row = 0;
    for (; row + kRows <= t.rows; row += kRows) Block<kRows, kSignedA>(t, row, col);
    for (; row < t.rows; ++row) Block<1, kSignedA>(t, row, col);
  }
}

void Int8TileKernel(const Int8Tile& t) { t.a_signed ? Tile<true>(t) : Tile<false>(t); }

void SumInt8RowsKernel(const uint8_t* x, int64_t row_stride, int64_t rows, int64_t n, bool is_signed,
                       int32_t* sums) {
  const hn::ScalableTag<uint8_t> d;
  const hn::ScalableTag<uint64_t> d64;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = n / lanes * lanes;
  const auto sign = hn::Set(d, is_signed ? uint8_t{0x80} : uint8_t{0});
  const auto shift = static_cast<uint64_t>(is_signed ? 128 * whole : 0);
  for (int64_t row = 0; row < rows; ++row, x += row_stride) {
    auto parts = hn::Zero(d64);
    for (int64_t i = 0; i < whole; i += lanes) {
      parts = hn::Add(parts, hn::SumsOf8(hn::Xor(hn::LoadU(d, x + i), sign)));
    }
    uint64_t sum = (whole ? hn::GetLane(hn::SumOfLanes(d64, parts)) : 0) - shift;
    for (int64_t i = whole; i < n; ++i)
      sum += is_signed ? static_cast<uint64_t>(static_cast<int8_t>(x[i])) : x[i];
    sums[row] = static_cast<int32_t>(sum);
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
OPSNN_TIER_TABLE(SumInt8RowsKernel);
Int8TileFn Int8TileForTier() { return OPSNN_TIER_CALL(Int8TileKernel); }
void PackInt8Rows(const uint8_t* src, int64_t row_stride, int64_t groups, uint8_t flip, uint8_t* dst) {
  OPSNN_TIER_CALL(PackInt8RowsKernel)(src, row_stride, groups, flip, dst);
}
void SumInt8Rows(const uint8_t* x, int64_t row_stride, int64_t rows, int64_t n, bool is_signed,
                 int32_t* sums) {
  OPSNN_TIER_CALL(SumInt8RowsKernel)(x, row_stride, rows, n, is_signed, sums);
}
}  // namespace opsnn::gemm
#endif
