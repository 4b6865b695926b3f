#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/plain_tile.cc"
#include "kernels/gemm/plain_tile.h"

#include <array>
#include <cstring>
#include <utility>

#include "isa/foreach_target.h"
#include "isa/hwy.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Accumulators in two columns of vectors, two vectors of B and one of A: 27 of 32 registers, or 15 of 16.
constexpr int kPlainRows = hn::MaxLanes(hn::ScalableTag<float>()) == 16 ? 12 : 6;

template <class D, class V>
HWY_INLINE V MulAccumulate(D, V a, V b, V sum) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::MulAdd(a, b, sum);
  } else {
    return hn::Add(hn::Mul(a, b), sum);  // wraps
  }
}

// A at (row, k) from every third row's pointer: base + {0, 1, 2} * stride, so that 12 rows take 4 pointers.
// The lines that come next are asked for one or two per step, a group of steps being as long as a line.
template <typename T, int MR>
struct RowsOfA {
  static constexpr int kBases = (MR + 2) / 3;
  static constexpr int64_t kLine = 64 / sizeof(T), kAhead = 2 * kLine;
  HWY_INLINE explicit RowsOfA(const PlainTile& t) : stride(t.lda) {
#pragma GCC unroll 4
    for (int i = 0; i < kBases; ++i) base[i] = static_cast<const T*>(t.a) + 3 * i * stride;
  }
  HWY_INLINE T At(int i) const { return base[i / 3][(i % 3) * stride]; }
  HWY_INLINE void Advance() {
#pragma GCC unroll 4
    for (int i = 0; i < kBases; ++i) ++base[i];
  }
  HWY_INLINE void BeginGroup() { line = base[0] + kAhead; }
  HWY_INLINE void Prefetch() {
    __builtin_prefetch(line, 0, 3);
    if constexpr (MR > kLine) __builtin_prefetch(line + kLine * stride, 0, 3);
    line += stride;
  }
  const T* base[kBases];
  const T* line = nullptr;
  int64_t stride;
};

template <typename T, int MR, class V>
HWY_INLINE void Step(RowsOfA<T, MR>& a, const T* b, V (&acc)[MR][2]) {
  const hn::ScalableTag<T> d;
  const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + hn::MaxLanes(d));
#pragma GCC unroll 12
  for (int i = 0; i < MR; ++i) {
    const V x = hn::Set(d, a.At(i));
    acc[i][0] = MulAccumulate(d, x, b0, acc[i][0]);
    acc[i][1] = MulAccumulate(d, x, b1, acc[i][1]);
  }
  a.Advance();
}

// MR rows against one panel of two vectors; `cols` of its columns are stored.
template <typename T, int MR>
void Tile(const PlainTile& t) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d)), kAheadB = 8;
  constexpr int64_t kGroup = RowsOfA<T, MR>::kLine;
  RowsOfA<T, MR> a(t);
  const T* b = static_cast<const T*>(t.b);
  T* c = static_cast<T*>(t.c);
  hn::Vec<decltype(d)> acc[MR][2];
#pragma GCC unroll 12
  for (int i = 0; i < MR; ++i) acc[i][0] = acc[i][1] = hn::Zero(d);
  int64_t left = t.k;
  for (; left >= kGroup; left -= kGroup) {
    a.BeginGroup();
    for (int64_t k = 0; k < kGroup; ++k, b += t.ldb) {
      a.Prefetch();
      __builtin_prefetch(b + kAheadB * t.ldb, 0, 3);
      __builtin_prefetch(b + kAheadB * t.ldb + kLanes, 0, 3);
      Step<T, MR>(a, b, acc);
    }
  }
  for (; left > 0; --left, b += t.ldb) Step<T, MR>(a, b, acc);
  if (t.cols == 2 * kLanes) {
#pragma GCC unroll 12
    for (int i = 0; i < MR; ++i) {
      hn::StoreU(acc[i][0], d, c + i * t.ldc);
      hn::StoreU(acc[i][1], d, c + i * t.ldc + kLanes);
    }
    return;
  }
  HWY_ALIGN T row[2 * hn::MaxLanes(d)];
#pragma GCC unroll 12
  for (int i = 0; i < MR; ++i) {
    hn::Store(acc[i][0], d, row);
    hn::Store(acc[i][1], d, row + kLanes);
    memcpy(c + i * t.ldc, row, static_cast<size_t>(t.cols) * sizeof(T));
  }
}

using TileFn = void (*)(const PlainTile&);
template <typename T, int... kRows>
constexpr std::array<TileFn, sizeof...(kRows)> Tiles(std::integer_sequence<int, kRows...>) {
  return {&Tile<T, kRows + 1>...};
}
using Heights = std::make_integer_sequence<int, kPlainRows>;
constexpr std::array<TileFn, kPlainRows> kF64Tiles = Tiles<double>(Heights()),
                                         kS32Tiles = Tiles<int32_t>(Heights());

void PlainTileKernel(bool is_f64, int64_t rows, const PlainTile& t) {
  (is_f64 ? kF64Tiles : kS32Tiles)[static_cast<size_t>(rows - 1)](t);
}
MicroTile PlainTileSize(bool is_f64) {
  const size_t lanes =
      is_f64 ? hn::MaxLanes(hn::ScalableTag<double>()) : hn::MaxLanes(hn::ScalableTag<int32_t>());
  return {kPlainRows, 2 * static_cast<int>(lanes)};
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(PlainTileSize);
OPSNN_TIER_TABLE(PlainTileKernel);
MicroTile PlainTileFor(bool is_f64) { return OPSNN_TIER_CALL(PlainTileSize)(is_f64); }
void RunPlainTile(bool is_f64, int64_t rows, const PlainTile& t) {
  OPSNN_TIER_CALL(PlainTileKernel)(is_f64, rows, t);
}
}  // namespace opsnn::gemm
#endif
