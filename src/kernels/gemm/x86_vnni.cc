// 8-bit tiles with AVX512-VNNI: four products and their sum per lane and instruction.
#include "kernels/gemm/int8_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace opsnn::gemm {
namespace {

// g++ 12 builds unmasked forms on a register that it takes for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define OPSNN_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

// g++ 12 keeps an array of __m512i in memory and one of its own vector type in registers.
using V = int __attribute__((vector_size(64)));

template <bool kSignedA>
OPSNN_VNNI inline V Dot(V sum, __m512i a, __m512i b) {
  return kSignedA ? (V)_mm512_dpbusd_epi32((__m512i)sum, b, a) : (V)_mm512_dpbusd_epi32((__m512i)sum, a, b);
}

// Sums, terms and what C holds. Whether the tile is whole is asked once, not for each store (a tenth of the
// time where K is short).
template <int MR, int kVectors, bool kWhole>
OPSNN_VNNI inline __attribute__((always_inline)) void StoreTile(const Int8Tile& t,
                                                                const V (&acc)[MR][kVectors],
                                                                const V (&terms)[kVectors],
                                                                const __mmask16 (&mask)[kVectors]) {
#pragma GCC unroll 14
  for (int i = 0; i < MR; ++i) {
    const __m512i row_term = _mm512_set1_epi32(t.row_terms ? t.row_terms[i] : 0);
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      int32_t* c = t.c + i * t.ldc + j * 16;
      __m512i sum = _mm512_add_epi32((__m512i)acc[i][j], _mm512_add_epi32((__m512i)terms[j], row_term));
      if (t.accumulate) sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask[j], c));
      kWhole ? _mm512_storeu_si512(c, sum) : _mm512_mask_storeu_epi32(c, mask[j], sum);
    }
  }
}

// Rows are reached from every third row's pointer, as in micro.cc.
template <int MR, int kVectors, bool kSignedA>
OPSNN_VNNI void Tile(const Int8Tile& t) {
  constexpr int kBases = (MR + 2) / 3;
  V acc[MR][kVectors];
#pragma GCC unroll 14
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) acc[i][j] = V{};
  const uint8_t* a[kBases];
#pragma GCC unroll 5
  for (int i = 0; i < kBases; ++i) a[i] = t.a + 3 * i * t.a_row;
  // C arrives while the sums are made; one tile's memory of its own is there.
  if (t.ldc != kInt8Cols) {
#pragma GCC unroll 14
    for (int i = 0; i < MR; ++i) {
      __builtin_prefetch(t.c + i * t.ldc, 1, 3);
      __builtin_prefetch(t.c + i * t.ldc + kInt8Cols - 1, 1, 3);
    }
  }
  const int64_t row = t.a_row, step = t.a_group, depth = t.groups * kInt8Group;
  const uint8_t* b = t.b;
  constexpr int64_t kAhead = 16;  // groups: operands come from L2
  // Rows of A that lie apart are asked for too, a line of one of them at a time: 16 groups use up a line of
  // every row. Behind its end a row goes on with the one of the next tile, which follows in memory.
  constexpr int64_t kBytesAhead = 128, kLine = 64, kLineGroups = kLine / kInt8Group;
  const bool apart = row != kInt8Group;
  const int64_t ahead_row = apart ? row : 0, last = std::max<int64_t>(0, t.groups - kBytesAhead / kInt8Group);
  const uint8_t* ahead = t.a + (apart ? kBytesAhead : 0);
  for (int64_t g = 0; g < t.groups; ++g) {
    __m512i bs[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      bs[j] = _mm512_loadu_si512(b + j * kLine);
      __builtin_prefetch(b + kAhead * kInt8Cols * kInt8Group + j * kLine, 0, 3);
    }
    if (g == last && apart) ahead += MR * row - depth;
    __builtin_prefetch(ahead, 0, 3);
    ahead += ahead_row;
    if (g % kLineGroups == kLineGroups - 1 && apart) ahead += kLine - kLineGroups * row;
#pragma GCC unroll 14
    for (int i = 0; i < MR; ++i) {
      int four;
      memcpy(&four, a[i / 3] + (i % 3) * row, sizeof(four));
      const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) acc[i][j] = Dot<kSignedA>(acc[i][j], x, bs[j]);
    }
#pragma GCC unroll 5
    for (int i = 0; i < kBases; ++i) a[i] += step;
    b += kInt8Cols * kInt8Group;
  }
  const auto columns = static_cast<uint32_t>((uint64_t{1} << t.cols) - 1);
  __mmask16 mask[kVectors];
  V terms[kVectors];
#pragma GCC unroll 2
  for (int j = 0; j < kVectors; ++j) {
    mask[j] = static_cast<__mmask16>(columns >> (16 * j));
    terms[j] = t.col_terms ? (V)_mm512_maskz_loadu_epi32(mask[j], t.col_terms + 16 * j) : V{};
  }
  // Whole tiles without masks: a masked store is not forwarded to the load of what finishes the tile.
  t.cols == 16 * kVectors ? StoreTile<MR, kVectors, true>(t, acc, terms, mask)
                          : StoreTile<MR, kVectors, false>(t, acc, terms, mask);
}

template <int kVectors, bool kSignedA, int... kRows>
constexpr std::array<Int8TileFn, kInt8Rows> Table(std::integer_sequence<int, kRows...>) {
  return {&Tile<kRows + 1, kVectors, kSignedA>...};
}
using Rows = std::make_integer_sequence<int, kInt8Rows>;
constexpr std::array<Int8TileFn, kInt8Rows> kTiles[2][2] = {
    {Table<1, false>(Rows()), Table<1, true>(Rows())}, {Table<2, false>(Rows()), Table<2, true>(Rows())}};

// Lane r of the result: the sum of the lanes of s[r]. kNarrow: those of a lane of s, and of two of them, fit
// 16 bits.
template <bool kNarrow>
OPSNN_VNNI inline __m512i SumsOfLanes(const V (&s)[16]) {
  __m512i two[8], four[4];
  const __m512i ones = _mm512_set1_epi16(1);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const __m512i a = (__m512i)s[2 * i], b = (__m512i)s[2 * i + 1];
    two[i] = kNarrow ? _mm512_madd_epi16(_mm512_packs_epi32(a, b), ones)
                     : _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = two[2 * i], b = two[2 * i + 1];
    four[i] = kNarrow ? _mm512_madd_epi16(_mm512_packs_epi32(a, b), ones)
                      : _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
  }
  constexpr int kEven = 0x88, kOdd = 0xDD;  // 128-bit lanes
  const __m512i lo = _mm512_add_epi32(_mm512_shuffle_i32x4(four[0], four[1], kEven),
                                      _mm512_shuffle_i32x4(four[0], four[1], kOdd));
  const __m512i hi = _mm512_add_epi32(_mm512_shuffle_i32x4(four[2], four[3], kEven),
                                      _mm512_shuffle_i32x4(four[2], four[3], kOdd));
  return _mm512_add_epi32(_mm512_shuffle_i32x4(lo, hi, kEven), _mm512_shuffle_i32x4(lo, hi, kOdd));
}

// Sixteen rows at a time, so that their lanes are added up together: one by one that takes longer than
// reading a short row.
template <bool kSigned>
OPSNN_VNNI void SumRows(const uint8_t* x, int64_t row_stride, int64_t rows, int64_t n, int32_t* sums) {
  const __m512i ones = _mm512_set1_epi8(1);
  constexpr int64_t kNarrowBytes = 8 * 128;  // an eighth of the bytes of a row in two lanes: 128 * 255 < 2^15
  for (int64_t row = 0; row < rows; row += 16) {
    const int64_t count = rows - row < 16 ? rows - row : 16;
    V s[16];
#pragma GCC unroll 16
    for (int r = 0; r < 16; ++r) s[r] = V{};
    for (int64_t i = 0; i < n; i += 64) {
      const __mmask64 mask = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        const __m512i v = _mm512_maskz_loadu_epi8(mask, x + (row + (r < count ? r : 0)) * row_stride + i);
        s[r] = Dot<kSigned>(s[r], v, ones);
      }
    }
    _mm512_mask_storeu_epi32(sums + row, static_cast<__mmask16>((1u << count) - 1),
                             n <= kNarrowBytes ? SumsOfLanes<true>(s) : SumsOfLanes<false>(s));
  }
}
void AnySums(const uint8_t* x, int64_t row_stride, int64_t rows, int64_t n, bool is_signed, int32_t* sums) {
  (is_signed ? &SumRows<true> : &SumRows<false>)(x, row_stride, rows, n, sums);
}

// One column: b is what it holds, one byte behind the other.
template <bool kSignedA>
OPSNN_VNNI void Dots(const Int8Tile& t) {
  const int64_t n = t.groups * kInt8Group;
  V s[16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r) s[r] = V{};
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 mask = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
    const __m512i b = _mm512_maskz_loadu_epi8(mask, t.b + i);
#pragma GCC unroll 14
    for (int r = 0; r < kInt8Rows; ++r) {
      const __m512i a = _mm512_maskz_loadu_epi8(mask, t.a + (r < t.rows ? r : 0) * t.a_row + i);
      s[r] = Dot<kSignedA>(s[r], a, b);
    }
  }
  alignas(64) int32_t sums[16];
  _mm512_store_si512(sums, SumsOfLanes<false>(s));
  for (int64_t r = 0; r < t.rows; ++r) {
    auto sum = static_cast<uint32_t>(sums[r]);
    if (t.row_terms) sum += static_cast<uint32_t>(t.row_terms[r]);
    if (t.col_terms) sum += static_cast<uint32_t>(t.col_terms[0]);
    int32_t* c = t.c + r * t.ldc;
    *c = static_cast<int32_t>(t.accumulate ? sum + static_cast<uint32_t>(*c) : sum);
  }
}
void AnyDots(const Int8Tile& t) { (t.a_signed ? &Dots<true> : &Dots<false>)(t); }

void AnyTile(const Int8Tile& t) { kTiles[t.cols > 16][t.a_signed][static_cast<size_t>(t.rows - 1)](t); }

}  // namespace

Int8TileFn Int8TileVnni() { return &AnyTile; }
Int8TileFn Int8DotsVnni() { return &AnyDots; }
Int8SumsFn Int8SumsVnni() { return &AnySums; }

}  // namespace opsnn::gemm

#else
namespace opsnn::gemm {
Int8TileFn Int8TileVnni() { return nullptr; }
Int8TileFn Int8DotsVnni() { return nullptr; }
Int8SumsFn Int8SumsVnni() { return nullptr; }
}  // namespace opsnn::gemm
#endif
