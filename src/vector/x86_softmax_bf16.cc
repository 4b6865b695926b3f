// Softmax of a bf16 row with AVX512-BF16: bit by bit what the template for all processors gives, in half of
// its instructions. Keys that sort like the values find the largest and the smallest 32 at a time; where they
// are close enough, no exponential is subnormal and neither is a result, so nothing has to be checked and
// the processor's own rounding to bf16, which flushes subnormals, is right.
#include "vector/row_template.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace opsnn::vector {
namespace {

// g++ 12 builds unmasked forms on a register that it takes for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define OPSNN_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))

constexpr int64_t kWide = 32, kLanes = 16;
constexpr int64_t kChunk = 4096;  // as in reduce-inl.h

float FloatOfKey(int16_t key) {
  const auto bits = static_cast<uint32_t>(static_cast<uint16_t>(key ^ ((key >> 15) & 0x7FFF))) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

// Signed keys in the order of the values.
OPSNN_BF16 inline __m512i Keys(__m512i bits) {
  const __m512i sign = _mm512_srai_epi16(bits, 15);
  // bits ^ (sign & 0x7FFF)
  return _mm512_ternarylogic_epi32(bits, sign, _mm512_set1_epi16(0x7FFF), 0x78);
}

struct Bounds {
  float least, most;
};
OPSNN_BF16 Bounds BoundsOf(const uint16_t* x, int64_t n) {
  __m512i most[4], least[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) most[k] = _mm512_set1_epi16(INT16_MIN), least[k] = _mm512_set1_epi16(INT16_MAX);
  int64_t i = 0;
  for (; i + 4 * kWide <= n; i += 4 * kWide) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const __m512i key = Keys(_mm512_loadu_si512(x + i + k * kWide));
      most[k] = _mm512_max_epi16(most[k], key), least[k] = _mm512_min_epi16(least[k], key);
    }
  }
  for (; i < n; i += kWide) {
    const __mmask32 inside = _cvtu32_mask32(n - i >= kWide ? ~0u : (1u << (n - i)) - 1);
    const __m512i key = Keys(_mm512_maskz_loadu_epi16(inside, x + i));
    most[0] = _mm512_mask_max_epi16(most[0], inside, most[0], key);
    least[0] = _mm512_mask_min_epi16(least[0], inside, least[0], key);
  }
  alignas(64) int16_t high[kWide], low[kWide];
  _mm512_store_si512(
      high, _mm512_max_epi16(_mm512_max_epi16(most[0], most[1]), _mm512_max_epi16(most[2], most[3])));
  _mm512_store_si512(
      low, _mm512_min_epi16(_mm512_min_epi16(least[0], least[1]), _mm512_min_epi16(least[2], least[3])));
  return {FloatOfKey(*std::min_element(low, low + kWide)), FloatOfKey(*std::max_element(high, high + kWide))};
}

OPSNN_BF16 inline __m512 Wide(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// The short way of ExpUsual in simd/exp-inl.h.
OPSNN_BF16 inline __m512 ExpNormal(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0f + 127.0f);
  const __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269502f), magic);
  const __m512 n = _mm512_sub_ps(t, magic);
  const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f),
                                    _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x));
  __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(0.00139506f), r, _mm512_set1_ps(0.008368954f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.041666206f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.16666518f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.5f));
  const __m512 e = _mm512_add_ps(_mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  return _mm512_mul_ps(e, _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

// e^(x - most) to `to`, and their sum in the order of reduce-inl.h.
OPSNN_BF16 double Exponentials(const uint16_t* x, int64_t n, float most, float* to, const char* ahead) {
  const __m512 m = _mm512_set1_ps(most);
  double total = 0;
  for (int64_t c = 0; c < n; c += kChunk) {
    const int64_t end = std::min(c + kChunk, n);
    __m512 s[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) s[k] = _mm512_setzero_ps();
    int64_t i = c;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      _mm_prefetch(ahead + i * 2, _MM_HINT_T1);
      _mm_prefetch(ahead + i * 2 + 64, _MM_HINT_T1);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i + k * kLanes));
        const __m512 e = ExpNormal(_mm512_sub_ps(Wide(bits), m));
        _mm512_storeu_ps(to + i + k * kLanes, e);
        s[k] = _mm512_add_ps(s[k], e);
      }
    }
    for (int k = 0; i < end; ++k, i += kLanes) {
      const int64_t left = end - i;
      const __mmask16 inside = _cvtu32_mask16(left >= kLanes ? 0xFFFF : (1u << left) - 1);
      const __m512 e = ExpNormal(_mm512_sub_ps(Wide(_mm256_maskz_loadu_epi16(inside, x + i)), m));
      _mm512_mask_storeu_ps(to + i, inside, e);
      const int at = left >= kLanes ? k : 3;
      s[at] = _mm512_mask_add_ps(s[at], inside, s[at], e);
    }
    total += _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
  }
  return total;
}

OPSNN_BF16 void Scale(const float* from, int64_t n, float scale, uint16_t* y, bool stream) {
  const __m512 f = _mm512_set1_ps(scale);
  const auto pair = [f](const float* p) OPSNN_BF16 {
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(_mm512_loadu_ps(p + kLanes), f),
                                        _mm512_mul_ps(_mm512_loadu_ps(p), f));
  };
  int64_t i = 0;
  if (stream && reinterpret_cast<uintptr_t>(y) % 64 == 0) {
    for (; i + kWide <= n; i += kWide) _mm512_stream_si512(reinterpret_cast<__m512i*>(y + i), pair(from + i));
  }
  for (; i + kWide <= n; i += kWide) _mm512_storeu_si512(y + i, pair(from + i));
  if (i == n) return;
  const uint32_t inside = (1u << (n - i)) - 1;
  const __m512 lo = _mm512_maskz_loadu_ps(_cvtu32_mask16(inside & 0xFFFF), from + i);
  const __m512 hi = _mm512_maskz_loadu_ps(_cvtu32_mask16(inside >> 16), from + i + kLanes);
  _mm512_mask_storeu_epi16(y + i, _cvtu32_mask32(inside),
                           (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(hi, f), _mm512_mul_ps(lo, f)));
}

}  // namespace

bool RunBf16SoftmaxRow(const RowArgs& a, int64_t row) {
  const auto* const x = static_cast<const uint16_t*>(a.x) + row * a.x_stride;
  auto* const y = static_cast<uint16_t*>(a.y) + row * a.y_stride;
  const Bounds b = BoundsOf(x, a.cols);
  // e^-87 is normal, and so is a result of that over a sum of `cols` ones. NaN fails the comparison.
  constexpr float kNormal = 86.5f;
  if (!(b.most - b.least + std::log(static_cast<float>(a.cols)) < kNormal)) return false;
  const bool next = a.prefetch_next && row + 1 < a.rows;
  const auto sum = static_cast<float>(
      Exponentials(x, a.cols, b.most, a.scratch, reinterpret_cast<const char*>(next ? x + a.x_stride : x)));
  Scale(a.scratch, a.cols, 1.0f / sum, y, a.stream);
  return true;
}

}  // namespace opsnn::vector

#else
namespace opsnn::vector {
bool RunBf16SoftmaxRow(const RowArgs&, int64_t) { return false; }
}  // namespace opsnn::vector
#endif
