// Few rows of bf16 against a large B that is streamed once, with AVX512-BF16.
#include "kernels/gemm/bf16_internal.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

namespace opsnn::gemm {
namespace {

// g++ 12 builds unmasked forms on a register that it takes for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define OPSNN_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define OPSNN_BF16_INLINE \
  __attribute__((always_inline, target("avx512f,avx512bw,avx512vl,avx512bf16"))) inline

// g++ 12 keeps an array of __m512 in memory and one of its own vector type in registers.
using V = float __attribute__((vector_size(64)));

// Columns of a step: accumulators of two vectors per 32 columns.
constexpr int64_t kStep = 32;
constexpr int Steps(int rows) { return rows <= 2 ? 4 : rows <= 4 ? 2 : 1; }

OPSNN_BF16_INLINE V Dot(V sum, __m512i a, __m512i b) {
  return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}
OPSNN_BF16_INLINE __m512i Word(const uint16_t* p) {
  int word;
  memcpy(&word, p, sizeof(word));
  return _mm512_set1_epi32(word);
}

// The words of two rows come in the order in which 128-bit lanes interleave: columns 0-3, 8-11, 16-19, 24-27
// in the first vector, the others in the second. Sums stay so until the last group of rows.
struct Order {
  __m512i low, high;
};
OPSNN_BF16_INLINE Order NaturalOrder() {
  return {_mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23),
          _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31)};
}

// A group of rows of B, and how many follow it: their lines are asked for meanwhile (gemv.cc).
struct Group {
  int64_t depth = 0, following = 0;
  bool first = false, last = false;
};

// M rows x NS times 32 columns of C over a group of rows of B.
template <int M, int NS>
OPSNN_BF16_INLINE void RowsStep(const PairGemvArgs& g, const uint16_t* a, const uint16_t* b, Group group,
                                float* c, const Order& order) {
  V acc[M][2 * NS];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < 2 * NS; ++j)
      acc[r][j] = group.first ? V{} : (V)_mm512_loadu_ps(c + r * g.ldc + j * 16);
  }
  const int64_t pairs = group.depth / 2, ahead = GemvStreams(M) * g.ldb;
  for (int64_t k = 0; k < pairs; ++k, b += 2 * g.ldb) {
    __m512i words[2 * NS];
    const uint16_t* next = 2 * k + 1 < group.following ? b + ahead : b;
#pragma GCC unroll 4
    for (int j = 0; j < NS; ++j) {
      const __m512i even = _mm512_loadu_si512(b + j * kStep), odd = _mm512_loadu_si512(b + g.ldb + j * kStep);
      __builtin_prefetch(next + j * kStep, 0, 2);
      __builtin_prefetch(next + g.ldb + j * kStep, 0, 2);
      words[2 * j] = _mm512_unpacklo_epi16(even, odd), words[2 * j + 1] = _mm512_unpackhi_epi16(even, odd);
    }
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const __m512i x = Word(a + r * g.lda + 2 * k);
#pragma GCC unroll 8
      for (int j = 0; j < 2 * NS; ++j) acc[r][j] = Dot(acc[r][j], x, words[j]);
    }
  }
  if (group.depth % 2 != 0) {
#pragma GCC unroll 4
    for (int j = 0; j < NS; ++j) {
      const __m512i even = _mm512_loadu_si512(b + j * kStep), odd = _mm512_setzero_si512();
      const __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r) {
        const __m512i x = _mm512_set1_epi32(a[r * g.lda + group.depth - 1]);
        acc[r][2 * j] = Dot(acc[r][2 * j], x, low), acc[r][2 * j + 1] = Dot(acc[r][2 * j + 1], x, high);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 4
    for (int j = 0; j < NS; ++j) {
      __m512 low = (__m512)acc[r][2 * j], high = (__m512)acc[r][2 * j + 1];
      if (group.last) {
        const __m512 ordered = _mm512_permutex2var_ps(low, order.low, high);
        high = _mm512_permutex2var_ps(low, order.high, high), low = ordered;
      }
      float* to = c + r * g.ldc + j * kStep;
      _mm512_storeu_ps(to, low), _mm512_storeu_ps(to + 16, high);
    }
  }
}

// The columns behind the last whole step: their sums have room of their own, where nobody else writes.
template <int M>
OPSNN_BF16 void LastColumns(const PairGemvArgs& g, int64_t col) {
  const auto mask = static_cast<__mmask32>((uint64_t{1} << (g.cols - col)) - 1);
  V acc[M][2];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) acc[r][0] = acc[r][1] = V{};
  for (int64_t k = 0; k < g.depth; k += 2) {
    const uint16_t* b = g.b + k * g.ldb + col;
    const bool whole = k + 1 < g.depth;
    const __m512i even = _mm512_maskz_loadu_epi16(mask, b);
    const __m512i odd = whole ? _mm512_maskz_loadu_epi16(mask, b + g.ldb) : _mm512_setzero_si512();
    const __m512i low = _mm512_unpacklo_epi16(even, odd), high = _mm512_unpackhi_epi16(even, odd);
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const uint16_t* a = g.a + r * g.lda + k;
      const __m512i x = whole ? Word(a) : _mm512_set1_epi32(*a);
      acc[r][0] = Dot(acc[r][0], x, low), acc[r][1] = Dot(acc[r][1], x, high);
    }
  }
  const Order order = NaturalOrder();
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
    const __m512 low = (__m512)acc[r][0], high = (__m512)acc[r][1];
    float* to = g.c + r * g.ldc + col;
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), _mm512_permutex2var_ps(low, order.low, high));
    if (mask >> 16)
      _mm512_mask_storeu_ps(to + 16, static_cast<__mmask16>(mask >> 16),
                            _mm512_permutex2var_ps(low, order.high, high));
  }
}

template <int M>
OPSNN_BF16 void Rows(const PairGemvArgs& g) {
  constexpr int NS = Steps(M);
  constexpr int64_t kStreams = GemvStreams(M);
  const Order order = NaturalOrder();
  const int64_t whole = g.cols / kStep * kStep;
  for (int64_t k = 0; k < g.depth; k += kStreams) {
    const Group group = {std::min(kStreams, g.depth - k), g.depth - k - kStreams, k == 0,
                         k + kStreams >= g.depth};
    const uint16_t* b = g.b + k * g.ldb;
    int64_t j = 0;
    for (; j + NS * kStep <= whole; j += NS * kStep)
      RowsStep<M, NS>(g, g.a + k, b + j, group, g.c + j, order);
    for (; j < whole; j += kStep) RowsStep<M, 1>(g, g.a + k, b + j, group, g.c + j, order);
  }
  if (whole < g.cols) LastColumns<M>(g, whole);
}

// Columns of a step: accumulators, one vector of each column and one of A.
constexpr int DotColumns(int rows) { return rows == 1 ? 8 : std::min(8, 31 / (rows + 1)); }

template <int M, int NB>
OPSNN_BF16_INLINE void DotsStep(const PairGemvArgs& g, int64_t k0, int64_t k1, int64_t col) {
  V acc[M][NB];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) acc[r][j] = V{};
  }
  const uint16_t* b = g.b + col * g.ldb;
  int64_t k = k0;
  for (; k + 32 <= k1; k += 32) {
    __m512i words[NB];
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) {
      words[j] = _mm512_loadu_si512(b + j * g.ldb + k);
      __builtin_prefetch(b + (NB + j) * g.ldb + k, 0, 2);  // for the next columns
    }
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const __m512i x = _mm512_loadu_si512(g.a + r * g.lda + k);
#pragma GCC unroll 8
      for (int j = 0; j < NB; ++j) acc[r][j] = Dot(acc[r][j], x, words[j]);
    }
  }
  if (k < k1) {  // zeros on both sides
    const auto mask = static_cast<__mmask32>((uint64_t{1} << (k1 - k)) - 1);
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) {
      const __m512i word = _mm512_maskz_loadu_epi16(mask, b + j * g.ldb + k);
#pragma GCC unroll 8
      for (int r = 0; r < M; ++r)
        acc[r][j] = Dot(acc[r][j], _mm512_maskz_loadu_epi16(mask, g.a + r * g.lda + k), word);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < NB; ++j) {
      float& out = g.c[r * g.ldc + col + j];
      const float sum = _mm512_reduce_add_ps((__m512)acc[r][j]);
      out = k0 > 0 ? out + sum : sum;
    }
  }
}

template <int M>
OPSNN_BF16 void Dots(const PairGemvArgs& g) {
  constexpr int NB = DotColumns(M);
  // The rows of A over this depth stay in L1 while all columns pass them.
  constexpr int64_t kDepth = 8192 / M / 32 * 32;
  for (int64_t k0 = 0; k0 == 0 || k0 < g.depth; k0 += kDepth) {
    const int64_t k1 = std::min(g.depth, k0 + kDepth);
    int64_t j = 0;
    for (; j + NB <= g.cols; j += NB) DotsStep<M, NB>(g, k0, k1, j);
    for (; j < g.cols; ++j) DotsStep<M, 1>(g, k0, k1, j);
  }
}

// M rows x NV strips of 16 columns: two rows of a strip are one vector, whose halves are interleaved.
constexpr int64_t kStrip = 16;
constexpr int StripVectors(int rows) { return rows == 1 ? 8 : rows <= 4 ? 4 : 2; }

template <int M, int NV>
OPSNN_BF16_INLINE void StripsStep(const PairGemvArgs& g, int64_t col, __mmask16 last, bool adds) {
  V acc[M][NV];
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) acc[r][v] = V{};
  }
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(kOrder);
  const uint16_t* b = g.b + col / kStrip * g.ldb;
  for (int64_t k = 0; k < g.depth; k += 2, b += 2 * kStrip) {
    const bool whole = k + 1 < g.depth;
    const __mmask32 rows = whole ? ~__mmask32{0} : __mmask32{0xFFFF};
    __m512i words[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v)
      words[v] = _mm512_permutexvar_epi16(order, _mm512_maskz_loadu_epi16(rows, b + v * g.ldb));
#pragma GCC unroll 8
    for (int r = 0; r < M; ++r) {
      const uint16_t* a = g.a + r * g.lda + k;
      const __m512i x = whole ? Word(a) : _mm512_set1_epi32(*a);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) acc[r][v] = Dot(acc[r][v], x, words[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < M; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) {
      float* to = g.c + r * g.ldc + col + v * kStrip;
      const __mmask16 mask = v < NV - 1 ? static_cast<__mmask16>(~0) : last;
      __m512 sum = (__m512)acc[r][v];
      if (adds) sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sum);
      _mm512_mask_storeu_ps(to, mask, sum);
    }
  }
}

template <int M>
OPSNN_BF16 void Strips(const PairGemvArgs& g, bool adds) {
  constexpr int NV = StripVectors(M);
  int64_t j = 0;
  for (; j + NV * kStrip <= g.cols; j += NV * kStrip)
    StripsStep<M, NV>(g, j, static_cast<__mmask16>(~0), adds);
  for (; j < g.cols; j += kStrip) {
    const int64_t left = std::min(kStrip, g.cols - j);
    StripsStep<M, 1>(g, j, static_cast<__mmask16>((1u << left) - 1), adds);
  }
}

using Fn = void (*)(const PairGemvArgs&);
using StripsFn = void (*)(const PairGemvArgs&, bool);
constexpr StripsFn kStripsFns[] = {&Strips<1>, &Strips<2>, &Strips<3>, &Strips<4>,
                                   &Strips<5>, &Strips<6>, &Strips<7>, &Strips<8>};
constexpr Fn kRows[] = {&Rows<1>, &Rows<2>, &Rows<3>, &Rows<4>, &Rows<5>, &Rows<6>, &Rows<7>, &Rows<8>};
constexpr Fn kDots[] = {&Dots<1>, &Dots<2>, &Dots<3>, &Dots<4>, &Dots<5>, &Dots<6>, &Dots<7>, &Dots<8>};

}  // namespace

void PairGemvRows(const PairGemvArgs& args) { kRows[args.rows - 1](args); }
void PairGemvDots(const PairGemvArgs& args) { kDots[args.rows - 1](args); }
void PairGemvStrips(const PairGemvArgs& args, bool adds) { kStripsFns[args.rows - 1](args, adds); }

}  // namespace opsnn::gemm

#else
namespace opsnn::gemm {
void PairGemvRows(const PairGemvArgs&) {}
void PairGemvDots(const PairGemvArgs&) {}
void PairGemvStrips(const PairGemvArgs&, bool) {}
}  // namespace opsnn::gemm
#endif
