// Softmax of bf16 rows with AVX512-BF16: bit by bit what the template for all processors gives, in half of
// its instructions. Keys that sort like the values find the largest and the smallest 32 at a time; where they
// are close enough, no exponential is subnormal and neither is a result, so nothing has to be checked and
// the processor's own rounding to bf16, which flushes subnormals, is right. Rows follow each other as in
// softmax_pipeline-inl.h.
#include "vector/row_template.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "simd/exp_table.h"

namespace opsnn::vector {
namespace {

// g++ 12 builds unmasked forms on a register that it takes for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define OPSNN_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define OPSNN_BF16_INLINE OPSNN_BF16 __attribute__((always_inline)) inline

constexpr int64_t kWide = 32, kLanes = 16, kGroup = 64;
constexpr int64_t kChunk = 4096;  // as in reduce-inl.h

float FloatOfKey(int16_t key) {
  const auto bits = static_cast<uint32_t>(static_cast<uint16_t>(key ^ ((key >> 15) & 0x7FFF))) << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

// The largest and the smallest of a row, as signed keys in the order of the values.
struct Bounds {
  __m512i most[2], least[2];
  OPSNN_BF16_INLINE Bounds() {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k)
      most[k] = _mm512_set1_epi16(INT16_MIN), least[k] = _mm512_set1_epi16(INT16_MAX);
  }
  OPSNN_BF16_INLINE static __m512i Keys(__m512i bits) {
    const __m512i sign = _mm512_srai_epi16(bits, 15);
    // bits ^ (sign & 0x7FFF)
    return _mm512_ternarylogic_epi32(bits, sign, _mm512_set1_epi16(0x7FFF), 0x78);
  }
  OPSNN_BF16_INLINE void Group(const uint16_t* x) {
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
      const __m512i key = Keys(_mm512_loadu_si512(x + k * kWide));
      most[k] = _mm512_max_epi16(most[k], key), least[k] = _mm512_min_epi16(least[k], key);
    }
  }
  OPSNN_BF16_INLINE void Rest(const uint16_t* x, int64_t n) {
    for (; n > 0; n -= kWide, x += kWide) {
      const __mmask32 inside = _cvtu32_mask32(n >= kWide ? ~0u : (1u << n) - 1);
      const __m512i key = Keys(_mm512_maskz_loadu_epi16(inside, x));
      most[0] = _mm512_mask_max_epi16(most[0], inside, most[0], key);
      least[0] = _mm512_mask_min_epi16(least[0], inside, least[0], key);
    }
  }
  OPSNN_BF16 float Most() const {
    alignas(64) int16_t keys[kWide];
    _mm512_store_si512(keys, _mm512_max_epi16(most[0], most[1]));
    return FloatOfKey(*std::max_element(keys, keys + kWide));
  }
  OPSNN_BF16 float Least() const {
    alignas(64) int16_t keys[kWide];
    _mm512_store_si512(keys, _mm512_min_epi16(least[0], least[1]));
    return FloatOfKey(*std::min_element(keys, keys + kWide));
  }
};

OPSNN_BF16_INLINE __m512 Widen(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// ExpNormal of simd/exp-inl.h.
OPSNN_BF16_INLINE __m512 ExpNormal(__m512 x) {
  const __m512 magic = _mm512_set1_ps(12582912.0f / kExpSteps);
  const __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269502f), magic);
  const __m512 n = _mm512_sub_ps(t, magic);
  const __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f),
                                    _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x));
  const __m512i k = _mm512_castps_si512(t);
  const __m512 entry =
      _mm512_permutex2var_ps(_mm512_load_ps(kExpTable.entry), k, _mm512_load_ps(kExpTable.entry + kLanes));
  const __m512 s =
      _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(entry), _mm512_slli_epi32(k, kExpShift)));
  __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(0.16666667f), _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_fmadd_ps(s, _mm512_mul_ps(r, p), s);
}

OPSNN_BF16_INLINE __m512i Scaled(const float* p, __m512 f) {
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(_mm512_loadu_ps(p + kLanes), f),
                                      _mm512_mul_ps(_mm512_loadu_ps(p), f));
}

struct Step {
  int64_t n = 0;
  const uint16_t* next = nullptr;  // whose bounds are looked for
  const uint16_t* x = nullptr;     // e^(x - most) to exps
  float most = 0;
  float* exps = nullptr;
  const float* last = nullptr;  // what the step before put there, times `scale`, to y
  float scale = 0;
  uint16_t* y = nullptr;
  float next_most = 0, next_least = 0;  // results
  double sum = 0;                       // in the order of reduce-inl.h

  template <bool kWrites, bool kPast>
  OPSNN_BF16 __attribute__((noinline)) void Run() {
    // Copies, which no store of a row may change.
    const uint16_t *const of_bounds = next, *const of_exps = x;
    const float* const from = last;
    float* const kept = exps;
    uint16_t* const to = y;
    const int64_t count = n;
    const __m512 m = _mm512_set1_ps(most), f = _mm512_set1_ps(scale);
    Bounds bounds;
    double total = 0;
    for (int64_t c = 0; c < count; c += kChunk) {
      const int64_t end = std::min(c + kChunk, count);
      __m512 s[4];
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) s[k] = _mm512_setzero_ps();
      int64_t i = c;
      for (; i + kGroup <= end; i += kGroup) {
        constexpr int64_t kAhead = 512;  // 1 KiB
        _mm_prefetch(of_bounds + i + kAhead, _MM_HINT_T0);
        _mm_prefetch(of_bounds + i + kAhead + kWide, _MM_HINT_T0);
        if (kWrites && !kPast) {  // stores that wait for their lines hold up all others
          _mm_prefetch(to + i + kAhead, _MM_HINT_T0);
          _mm_prefetch(to + i + kAhead + kWide, _MM_HINT_T0);
        }
        bounds.Group(of_bounds + i);
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          const auto* bits = reinterpret_cast<const __m256i*>(of_exps + i + k * kLanes);
          const __m512 e = ExpNormal(_mm512_sub_ps(Widen(_mm256_loadu_si256(bits)), m));
          _mm512_storeu_ps(kept + i + k * kLanes, e);
          s[k] = _mm512_add_ps(s[k], e);
        }
        if constexpr (kWrites) {
#pragma GCC unroll 2
          for (int k = 0; k < 2; ++k) {
            const __m512i v = Scaled(from + i + k * kWide, f);
            auto* const at = reinterpret_cast<__m512i*>(to + i + k * kWide);
            kPast ? _mm512_stream_si512(at, v) : _mm512_storeu_si512(at, v);
          }
        }
      }
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const int64_t left = end - i;
        if (left <= 0) continue;
        const __mmask16 inside = _cvtu32_mask16(left >= kLanes ? 0xFFFF : (1u << left) - 1);
        const __m512 e = ExpNormal(_mm512_sub_ps(Widen(_mm256_maskz_loadu_epi16(inside, of_exps + i)), m));
        _mm512_mask_storeu_ps(kept + i, inside, e);
        if (left >= kLanes) {
          s[k] = _mm512_add_ps(s[k], e);
        } else {
          s[3] = _mm512_mask_add_ps(s[3], inside, s[3], e);
        }
        i += kLanes;
      }
      total += _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(s[0], s[1]), _mm512_add_ps(s[2], s[3])));
    }
    const int64_t whole = count / kGroup * kGroup;
    bounds.Rest(of_bounds + whole, count - whole);
    if constexpr (kWrites) Scale(from, whole, count, f, to);
    next_most = bounds.Most(), next_least = bounds.Least();
    sum = total;
  }

  // Elements [i, n) of the last row that Run has met.
  OPSNN_BF16 static void Scale(const float* from, int64_t i, int64_t n, __m512 f, uint16_t* y) {
    for (; i + kWide <= n; i += kWide) _mm512_storeu_si512(y + i, Scaled(from + i, f));
    if (i == n) return;
    const uint32_t inside = (1u << (n - i)) - 1;
    const __m512 lo = _mm512_maskz_loadu_ps(_cvtu32_mask16(inside & 0xFFFF), from + i);
    const __m512 hi = _mm512_maskz_loadu_ps(_cvtu32_mask16(inside >> 16), from + i + kLanes);
    _mm512_mask_storeu_epi16(y + i, _cvtu32_mask32(inside),
                             (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(hi, f), _mm512_mul_ps(lo, f)));
  }
};

OPSNN_BF16 void FirstBounds(const uint16_t* x, int64_t n, Step& step) {
  Bounds bounds;
  int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) bounds.Group(x + i);
  bounds.Rest(x + i, n - i);
  step.next_most = bounds.Most(), step.next_least = bounds.Least();
}

OPSNN_BF16 int64_t RunRows(const RowArgs& a, int64_t first) {
  const auto* const x = static_cast<const uint16_t*>(a.x);
  auto* const y = static_cast<uint16_t*>(a.y);
  const bool past = a.stream && ((reinterpret_cast<intptr_t>(y) | a.y_stride * 2) & 63) == 0;
  // e^-87 is normal, and so is a result of that over a sum of `cols` ones. NaN fails the comparison.
  const float normal = 86.5f - std::log(static_cast<float>(a.cols));
  Step step;
  step.n = a.cols;
  FirstBounds(x + first * a.x_stride, a.cols, step);
  int64_t r = first;
  for (; r < a.rows && step.next_most - step.next_least < normal; ++r) {
    step.x = x + r * a.x_stride;
    step.next = r + 1 < a.rows ? step.x + a.x_stride : step.x;
    step.most = step.next_most;
    step.last = step.exps, step.exps = a.scratch + r % 2 * ScratchStride(a.cols);
    step.y = y + (r - 1) * a.y_stride;
    if (r == first) {
      step.Run<false, false>();
    } else {
      past ? step.Run<true, true>() : step.Run<true, false>();
    }
    step.scale = 1.0f / static_cast<float>(step.sum);
  }
  if (r > first) Step::Scale(step.exps, 0, a.cols, _mm512_set1_ps(step.scale), y + (r - 1) * a.y_stride);
  return r;
}

}  // namespace

int64_t RunBf16SoftmaxRows(const RowArgs& a, int64_t first) { return RunRows(a, first); }

}  // namespace opsnn::vector

#else
namespace opsnn::vector {
int64_t RunBf16SoftmaxRows(const RowArgs&, int64_t first) { return first; }
}  // namespace opsnn::vector
#endif
