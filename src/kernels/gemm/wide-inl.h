// Tiles of few rows and two panels of B side by side, for blocks of B that stay in L2. They read B once per
// row panel, in the order in which it lies, and A where it lies: with six rows no stride puts the lines that
// are read side by side into one set of L1. A multiply-add takes a fifth fewer instructions than in tiles of
// one panel, which shows where the core is shared with a hyperthread of somebody else. Math and
// OPSNN_BLOCK_ATTR as in block-inl.h.
#if defined(OPSNN_KERNELS_GEMM_WIDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_GEMM_WIDE_INL_H_
#undef OPSNN_KERNELS_GEMM_WIDE_INL_H_
#else
#define OPSNN_KERNELS_GEMM_WIDE_INL_H_
#endif

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "isa/hwy.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/micro-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 24 accumulators, 4 of B and 1 of A: tiers with 16 registers have no such tile.
constexpr bool kHasWide = kLanes == 16;
constexpr int kWideRows = kHasWide ? 6 : 1, kWideVectors = 4;

// A block of B up to this size stays in an L1 of 32 KiB beside the rows of A: it is not asked for ahead,
// which would take load slots from short tiles (bf16 4096x64x64: 2 %).
constexpr int64_t kNearFloats = 16 * 1024 / sizeof(float);

template <class Math, int MR, bool kUnitRow, bool kNear>
OPSNN_BLOCK_ATTR void Wide(MicroArgs& g) {
  const D d;
  V acc[MR][kWideVectors];
  LoadTile<MR, kWideVectors>(g, acc);
  std::conditional_t<kUnitRow, UnitRowA<MR>, UnitKA<MR>> a(g);
  const float* b = g.b;
  Lines next = g.ahead.b;
  int64_t lines = g.ahead.b_lines, left = g.depth;
  while (left > 0) {
    for (int64_t i = std::min(g.ahead.b_step, lines); i > 0; --i, --lines) {
      __builtin_prefetch(next.Next(), 0, 2);
    }
    const int64_t piece = std::min(kPiece, left);
    for (int64_t k = 0; k < piece; ++k, b += g.b_stride) {
      V bk[kWideVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kWideVectors; ++j) {
        const float* p = b + j / kNv * g.b_pair + j % kNv * kLanes;
        bk[j] = hn::LoadU(d, p);
        if constexpr (!kNear) __builtin_prefetch(p + kAheadB * g.b_stride, 0, 3);
      }
#pragma GCC unroll 8
      for (int i = 0; i < MR; ++i) {
        const V ai = a.At(i);
#pragma GCC unroll 4
        for (int j = 0; j < kWideVectors; ++j) acc[i][j] = Math::MulAdd(ai, bk[j], acc[i][j]);
      }
      a.Advance();
    }
    left -= piece;
  }
  g.ahead.b = next;
  StoreTile<MR, kWideVectors>(g, acc);
}

using WideFn = void (*)(MicroArgs&);
template <class Math, bool kUnitRow, bool kNear, int... kRows>
constexpr std::array<WideFn, sizeof...(kRows)> WideFns(std::integer_sequence<int, kRows...>) {
  return {&Wide<Math, kRows + 1, kUnitRow, kNear>...};
}
using WideHeights = std::make_integer_sequence<int, kWideRows>;
// [near][unit row]
template <class Math>
constexpr std::array<WideFn, kWideRows> kWideFns[2][2] = {
    {WideFns<Math, false, false>(WideHeights()), WideFns<Math, true, false>(WideHeights())},
    {WideFns<Math, false, true>(WideHeights()), WideFns<Math, true, true>(WideHeights())}};

template <class Math>
void RunWide(const BlockArgs& g) {
  constexpr int64_t kCols = 2 * kNr;
  MicroArgs m{};
  m.ldc = g.ldc;
  m.depth = g.depth;
  m.ld_sums = g.ld_sums;
  m.adds = g.adds;
  m.finish = &g.finish;
  m.b_stride = g.b_row_stride;
  m.b_pair = g.b_panel_stride;
  Lines coming[] = {g.next_b, g.next_a, g.next_out};
  size_t first = 0;
  const int64_t tiles = (g.p1 - g.p0) * CeilDiv(g.cols, kCols),
                pieces = std::max<int64_t>(1, CeilDiv(g.depth, kPiece));
  const int64_t share = CeilDiv(g.next_b.left + g.next_a.left + g.next_out.left, tiles);
  m.ahead.b_step = CeilDiv(share, pieces);
  const bool unit_row = g.a_layout != ALayout::kUnitK;
  const auto& fns = kWideFns<Math>[g.cols * g.depth <= kNearFloats][unit_row];
  for (int64_t p = g.p0; p < g.p1; ++p) {
    const int64_t row = g.panels.Start(p), height = g.panels.Height(p);
    m.a = g.a + (g.a_layout == ALayout::kPacked  ? row * g.depth
                 : g.a_layout == ALayout::kUnitK ? row * g.a_stride
                                                 : row);
    m.a_stride = g.a_layout == ALayout::kPacked ? height : g.a_stride;
    for (int64_t j = 0; j < g.cols; j += kCols) {
      if (share > 0) {
        while (first < 2 && coming[first].left == 0) ++first;
        m.ahead.b = coming[first];
        m.ahead.b_lines = std::min(share, m.ahead.b.left);
      }
      m.cols = std::min(kCols, g.cols - j);
      m.bias = g.finish.bias ? g.finish.bias + j : nullptr;
      m.b = g.b + j / kNr * g.b_panel_stride;
      m.c = g.c + row * g.ldc + j;
      m.sums = g.sums ? g.sums + row * g.ld_sums + j : nullptr;
      fns[static_cast<size_t>(height - 1)](m);
      Activate(g.finish, m, height);
      if (share > 0) coming[first] = m.ahead.b;
    }
  }
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
