// 8-bit tiles with AVX512-VNNI: four products and their sum per lane and instruction.
#include "kernels/gemm/int8_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

namespace opsnn::gemm {
namespace {

#define OPSNN_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

// g++ 12 keeps an array of __m512i in memory and one of its own vector type in registers.
using V = int __attribute__((vector_size(64)));
constexpr int kVectors = kInt8Cols / 16;

template <int MR>
OPSNN_VNNI void Tile(const Int8Tile& t) {
  V acc[MR][kVectors];
#pragma GCC unroll 14
  for (int i = 0; i < MR; ++i) acc[i][0] = acc[i][1] = V{};
  const uint8_t* a = t.a;
  const int8_t* b = t.b;
  constexpr int64_t kAhead = 16;  // groups: operands come from L2
  for (int64_t g = 0; g < t.groups; ++g) {
    const __m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + 64);
    __builtin_prefetch(a + kAhead * MR * kInt8Group, 0, 3);
    __builtin_prefetch(b + kAhead * kInt8Cols * kInt8Group, 0, 3);
    __builtin_prefetch(b + kAhead * kInt8Cols * kInt8Group + 64, 0, 3);
#pragma GCC unroll 14
    for (int i = 0; i < MR; ++i) {
      int four;
      memcpy(&four, a + i * kInt8Group, sizeof(four));
      const __m512i x = _mm512_set1_epi32(four);
      acc[i][0] = (V)_mm512_dpbusd_epi32((__m512i)acc[i][0], x, b0);
      acc[i][1] = (V)_mm512_dpbusd_epi32((__m512i)acc[i][1], x, b1);
    }
    a += MR * kInt8Group;
    b += kInt8Cols * kInt8Group;
  }
  const auto columns = static_cast<uint32_t>((uint64_t{1} << t.cols) - 1);
  const __mmask16 mask[kVectors] = {static_cast<__mmask16>(columns), static_cast<__mmask16>(columns >> 16)};
#pragma GCC unroll 14
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      int32_t* c = t.c + i * t.ldc + j * 16;
      __m512i sum = (__m512i)acc[i][j];
      if (t.accumulate) sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask[j], c));
      _mm512_mask_storeu_epi32(c, mask[j], sum);
    }
  }
}

template <int... kRows>
constexpr std::array<Int8TileFn, kInt8Rows> Table(std::integer_sequence<int, kRows...>) {
  return {&Tile<kRows + 1>...};
}
constexpr std::array<Int8TileFn, kInt8Rows> kTiles = Table(std::make_integer_sequence<int, kInt8Rows>());

void AnyTile(const Int8Tile& t) { kTiles[static_cast<size_t>(t.rows - 1)](t); }

}  // namespace

Int8TileFn Int8TileVnni() { return &AnyTile; }

}  // namespace opsnn::gemm

#else
namespace opsnn::gemm {
Int8TileFn Int8TileVnni() { return nullptr; }
}  // namespace opsnn::gemm
#endif
