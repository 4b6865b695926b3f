// Panels out of the windows of an image, with AVX512-VBMI: the bytes of a vector in any order.
#include "isa/tier.h"
#include "kernels/gemm/int8_windows.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace opsnn::gemm {
namespace {

// g++ 12 builds unmasked forms on a register that it takes for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define OPSNN_VBMI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

constexpr int64_t kHalf = kInt8Cols / 2;

// Where the four bytes of each of 16 columns come from, within the vector that is read at the first of them.
OPSNN_VBMI __m512i Order(const int32_t* columns, int32_t from) {
  alignas(64) uint8_t order[64];
  for (int j = 0; j < kHalf; ++j)
    for (int u = 0; u < kInt8Group; ++u) order[j * kInt8Group + u] = static_cast<uint8_t>(columns[j] - from);
  return _mm512_load_si512(order);
}

// kOnce: all columns lie within one vector.
template <bool kOnce>
OPSNN_VBMI void Pack(WindowRows rows, int64_t groups, const int32_t* columns, uint8_t flip, uint8_t* dst) {
  const int32_t second = kOnce ? columns[0] : columns[kHalf];
  const __m512i lo = Order(columns, columns[0]), hi = Order(columns + kHalf, second);
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(flip));
  constexpr uint64_t kEach = 0x1111111111111111;
  for (int64_t g = 0; g < groups; ++g, dst += kInt8Cols * kInt8Group) {
    __m512i a = sign, b = sign;
#pragma GCC unroll 4
    for (int u = 0; u < kInt8Group; ++u) {
      const uint8_t* row = rows.Next();
      const __m512i x = _mm512_loadu_si512(row + columns[0]);
      const __m512i y = kOnce ? x : _mm512_loadu_si512(row + second);
      a = _mm512_mask_permutexvar_epi8(a, kEach << u, lo, x);
      b = _mm512_mask_permutexvar_epi8(b, kEach << u, hi, y);
    }
    _mm512_storeu_si512(dst, _mm512_xor_si512(a, sign));
    _mm512_storeu_si512(dst + 64, _mm512_xor_si512(b, sign));
  }
}

void AnyPack(WindowRows rows, int64_t groups, const int32_t* columns, uint8_t flip, uint8_t* dst) {
  (columns[kInt8Cols - 1] - columns[0] < 64 ? &Pack<true> : &Pack<false>)(rows, groups, columns, flip, dst);
}

}  // namespace

PackWindowsFn PackWindowsVbmi() {
  static const bool has = __builtin_cpu_supports("avx512vbmi");
  return has && isa::ActiveTier() == isa::Tier::kAvx512 ? &AnyPack : nullptr;
}

}  // namespace opsnn::gemm

#else
namespace opsnn::gemm {
PackWindowsFn PackWindowsVbmi() { return nullptr; }
}  // namespace opsnn::gemm
#endif
