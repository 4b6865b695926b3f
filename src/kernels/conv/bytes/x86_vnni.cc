// Tiles of convolutions of bytes with AVX512-VNNI.
#include "kernels/conv/bytes/tile.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <array>
#include <cstring>
#include <utility>

namespace opsnn::conv {
namespace {

// g++ 12 builds unmasked forms on a register that it takes for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"

#define OPSNN_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define OPSNN_VNNI_INLINE OPSNN_VNNI inline __attribute__((always_inline))

// g++ 12 keeps an array of __m512i in memory and one of its own vector type in registers.
using V = int __attribute__((vector_size(64)));

struct Stores {
  __m512i zero, lo, hi, flip;
  __m512 high, low;
  OPSNN_VNNI explicit Stores(const ByteStores& s)
      : zero(_mm512_set1_epi16(static_cast<int16_t>(s.zero))),
        lo(_mm512_set1_epi8(static_cast<char>(s.lo))),
        hi(_mm512_set1_epi8(static_cast<char>(s.hi))),
        flip(_mm512_set1_epi8(static_cast<char>(s.flip_y))),
        high(_mm512_set1_ps(s.high)),
        low(_mm512_set1_ps(s.low)) {}
};

OPSNN_VNNI_INLINE __m512i Rounded(const Stores& s, V sum, __m512 scale, __m512 bias) {
  const __m512 x = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps((__m512i)sum), scale), bias);
  const __m512 q = _mm512_fmadd_ps(x, s.high, _mm512_mul_ps(x, s.low));
  return _mm512_cvt_roundps_epi32(q, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// Four vectors of integers as bytes: each lane of 16 bytes holds four of a, b, c and d.
OPSNN_VNNI_INLINE __m512i Bytes(const Stores& s, __m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_adds_epi16(_mm512_packs_epi32(a, b), s.zero);
  const __m512i cd = _mm512_adds_epi16(_mm512_packs_epi32(c, d), s.zero);
  const __m512i bytes = _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(ab, cd), s.lo), s.hi);
  return _mm512_xor_si512(bytes, s.flip);
}
// The same with all of a first, then b, c and d.
OPSNN_VNNI_INLINE __m512i InOrder(__m512i bytes) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, bytes);
}

constexpr int64_t kPixel = 32;

template <int MR, int kVectors>
OPSNN_VNNI_INLINE void StoreTile(const ByteTile& t, const V (&acc)[MR][kVectors]) {
  const Stores s(t.stores);
  __m512 scale[kVectors], bias[kVectors];
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    scale[j] = _mm512_loadu_ps(t.scale + 16 * j);
    bias[j] = _mm512_loadu_ps(t.bias + 16 * j);
  }
  constexpr int kTogether = 4 / kVectors;  // rows whose vectors fill a vector of bytes
#pragma GCC unroll 14
  for (int i = 0; i < MR; i += kTogether) {
    __m512i q[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const int row = i + v / kVectors < MR ? i + v / kVectors : MR - 1, j = v % kVectors;
      q[v] = Rounded(s, acc[row][j], scale[j], bias[j]);
    }
    const __m512i bytes = InOrder(Bytes(s, q[0], q[1], q[2], q[3]));
    uint8_t* y = t.y + i * kPixel;
    if constexpr (kVectors == 1) {
      const int rows = MR - i < 4 ? MR - i : 4;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm512_castsi512_si128(bytes));
      if (rows > 1)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + kPixel), _mm512_extracti32x4_epi32(bytes, 1));
      if (rows > 2)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + 2 * kPixel), _mm512_extracti32x4_epi32(bytes, 2));
      if (rows > 3)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + 3 * kPixel), _mm512_extracti32x4_epi32(bytes, 3));
    } else {
      uint8_t* second = kVectors == 2 ? y + kPixel : y + t.y_block;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), _mm512_castsi512_si256(bytes));
      if (kVectors == 4 || i + 1 < MR)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(second), _mm512_extracti64x4_epi64(bytes, 1));
    }
  }
}

// Rows are reached from every third row's pointer.
template <int MR, int kVectors, bool kFlip>
OPSNN_VNNI void Tile(const ByteTile& t) {
  constexpr int kBases = (MR + 2) / 3;
  constexpr int64_t kPanelGroup = 128;
  V acc[MR][kVectors];
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) {
    const V term = (V)_mm512_loadu_si512(t.terms + 16 * j);
#pragma GCC unroll 14
    for (int i = 0; i < MR; ++i) acc[i][j] = term;
  }
  const int64_t row = t.x_row, panel = t.w_panel;
  const uint8_t* w = t.w;
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  for (int64_t s = 0; s < t.num_steps; ++s) {
    const uint8_t* a[kBases];
#pragma GCC unroll 5
    for (int i = 0; i < kBases; ++i) a[i] = t.x + t.steps[s].offset + 3 * i * row;
    for (int64_t g = t.steps[s].groups; g > 0; --g) {
      __m512i ws[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) ws[j] = _mm512_loadu_si512(w + (j / 2) * panel + (j % 2) * 64);
#pragma GCC unroll 14
      for (int i = 0; i < MR; ++i) {
        int four;
        std::memcpy(&four, a[i / 3] + (i % 3) * row, sizeof(four));
        __m512i x = _mm512_set1_epi32(four);
        if constexpr (kFlip) x = _mm512_xor_si512(x, sign);
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) acc[i][j] = (V)_mm512_dpbusd_epi32((__m512i)acc[i][j], x, ws[j]);
      }
#pragma GCC unroll 5
      for (int i = 0; i < kBases; ++i) a[i] += kByteGroup;
      w += kPanelGroup;
    }
  }
  StoreTile<MR, kVectors>(t, acc);
}

template <int kVectors, bool kFlip, int... kRows>
constexpr auto Table(std::integer_sequence<int, kRows...>) {
  return std::array<ByteTileFn, sizeof...(kRows)>{&Tile<kRows + 1, kVectors, kFlip>...};
}
template <bool kFlip>
void AnyTile(const ByteTile& t) {
  static constexpr auto kOne = Table<1, kFlip>(std::make_integer_sequence<int, kByteRows>());
  static constexpr auto kTwo = Table<2, kFlip>(std::make_integer_sequence<int, kByteRows>());
  static constexpr auto kFour = Table<4, kFlip>(std::make_integer_sequence<int, kWideByteRows>());
  const auto i = static_cast<size_t>(t.rows - 1);
  (t.vectors == 4 ? kFour[i] : t.vectors == 2 ? kTwo[i] : kOne[i])(t);
}

// The four bytes of each channel that a group of taps meets, side by side.
template <bool kFlip>
struct Taps {
  OPSNN_VNNI static inline __attribute__((always_inline)) __m512i Two(const uint8_t* a, const uint8_t* b) {
    const __m256i lo = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a));
    const __m256i hi = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
    const __m512i x = _mm512_inserti64x4(_mm512_castsi256_si512(lo), hi, 1);
    return kFlip ? _mm512_xor_si512(x, _mm512_set1_epi8(static_cast<char>(0x80))) : x;
  }
  OPSNN_VNNI static inline __attribute__((always_inline)) __m512i Neighbours(const uint8_t* a) {
    const __m512i x = _mm512_loadu_si512(a);
    return kFlip ? _mm512_xor_si512(x, _mm512_set1_epi8(static_cast<char>(0x80))) : x;
  }
};

// Two pixels at x and `second` bytes on.
template <bool kFlip, bool kNeighbours>
OPSNN_VNNI_INLINE __m512i TwoPixels(const ByteLine& t, const Stores& s, const uint8_t* x, int64_t second) {
  V acc[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) acc[j] = (V)_mm512_loadu_si512(t.terms + 16 * j);
  const int8_t* w = t.w;
  for (int64_t g = 0; g < t.groups; ++g, w += 256) {
    const int64_t* tap = t.taps + 4 * g;
    __m512i v[4];
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
      const uint8_t* at = x + tap[u];
      v[u] = kNeighbours ? Taps<kFlip>::Neighbours(at) : Taps<kFlip>::Two(at, at + second);
    }
    const __m512i lo01 = _mm512_unpacklo_epi8(v[0], v[1]), hi01 = _mm512_unpackhi_epi8(v[0], v[1]);
    const __m512i lo23 = _mm512_unpacklo_epi8(v[2], v[3]), hi23 = _mm512_unpackhi_epi8(v[2], v[3]);
    const auto dot = [&](V sum, __m512i four, int j) OPSNN_VNNI {
      return (V)_mm512_dpbusd_epi32((__m512i)sum, four, _mm512_loadu_si512(w + 64 * j));
    };
    acc[0] = dot(acc[0], _mm512_unpacklo_epi16(lo01, lo23), 0);
    acc[1] = dot(acc[1], _mm512_unpackhi_epi16(lo01, lo23), 1);
    acc[2] = dot(acc[2], _mm512_unpacklo_epi16(hi01, hi23), 2);
    acc[3] = dot(acc[3], _mm512_unpackhi_epi16(hi01, hi23), 3);
  }
  __m512i q[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j)
    q[j] = Rounded(s, acc[j], _mm512_loadu_ps(t.scale + 16 * j), _mm512_loadu_ps(t.bias + 16 * j));
  return Bytes(s, q[0], q[1], q[2], q[3]);
}

template <bool kFlip>
OPSNN_VNNI void Line(const ByteLine& t) {
  const Stores s(t.stores);
  const uint8_t* x = t.x;
  uint8_t* y = t.y;
  int64_t i = 0;
  if (t.x_step == kPixel) {
    for (; i + 2 <= t.pixels; i += 2, x += 2 * kPixel, y += 2 * kPixel)
      _mm512_storeu_si512(y, TwoPixels<kFlip, true>(t, s, x, kPixel));
  } else {
    for (; i + 2 <= t.pixels; i += 2, x += 2 * t.x_step, y += 2 * kPixel)
      _mm512_storeu_si512(y, TwoPixels<kFlip, false>(t, s, x, t.x_step));
  }
  if (i < t.pixels)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y),
                        _mm512_castsi512_si256(TwoPixels<kFlip, false>(t, s, x, 0)));
}

}  // namespace

ByteTileFn ByteTileVnni(bool flip) { return flip ? &AnyTile<true> : &AnyTile<false>; }
ByteLineFn ByteLineVnni(bool flip) { return flip ? &Line<true> : &Line<false>; }

}  // namespace opsnn::conv

#else
namespace opsnn::conv {
ByteTileFn ByteTileVnni(bool) { return nullptr; }
ByteLineFn ByteLineVnni(bool) { return nullptr; }
}  // namespace opsnn::conv
#endif
