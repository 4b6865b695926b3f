// The micro-kernels and the loop over tiles of one block, over any way to multiply and add: Math::MulAdd(a,
// b, c) of a broadcast value of A, a vector of B and sums. Per-target guard. OPSNN_BLOCK_ATTR is set by the
// file that includes this: what the functions that Math::MulAdd is inlined into must be compiled for beyond
// the tier.
#if defined(OPSNN_KERNELS_GEMM_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_GEMM_BLOCK_INL_H_
#undef OPSNN_KERNELS_GEMM_BLOCK_INL_H_
#else
#define OPSNN_KERNELS_GEMM_BLOCK_INL_H_
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

// Where B comes from: caches; a matrix, whose first tile packs a panel for the others, under the cover of its
// multiply-adds; memory, to be read where it lies.
enum class From : uint8_t { kCache, kMatrix, kMemory };

template <class Math, int MR, int NV, From kFrom, class A>
HWY_INLINE OPSNN_BLOCK_ATTR void Step(A& a, const float* b, float* packed, V (&acc)[MR][NV]) {
  const D d;
  V bk[NV];
#pragma GCC unroll 4
  for (int j = 0; j < NV; ++j) bk[j] = hn::LoadU(d, b + j * kLanes);
  if constexpr (kFrom == From::kMatrix) {
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) hn::Store(bk[j], d, packed + j * kLanes);
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    const V ai = a.At(i);
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) acc[i][j] = Math::MulAdd(ai, bk[j], acc[i][j]);
  }
  a.Advance();
}

template <class Math, int MR, int NV, bool kUnitRow, From kFrom>
OPSNN_BLOCK_ATTR void Micro(MicroArgs& g) {
  V acc[MR][NV];
  LoadTile<MR, NV>(g, acc);
  std::conditional_t<kUnitRow, UnitRowA<MR>, UnitKA<MR>> a(g);
  const float* b = g.b;
  float* packed = g.packed;
  const int64_t pieces = g.depth / kPiece;
  if (pieces > 0) {
    const float* c = g.ahead.c;
    Lines next_b = g.ahead.b;
    int64_t c_left = g.ahead.c_rows, b_left = g.ahead.b_lines;
    const int64_t c_step = g.ahead.c_step, b_step = g.ahead.b_step;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      for (int64_t i = std::min(c_step, c_left); i > 0; --i, --c_left, c += g.ahead.ldc) {
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) __builtin_prefetch(c + j * kLanes, 1, 3);
        __builtin_prefetch(c + NV * kLanes - 1, 1, 3);  // rows that begin within a line end in one more
      }
      for (int64_t i = std::min(b_step, b_left); i > 0; --i, --b_left)
        __builtin_prefetch(next_b.Next(), 0, 2);
      a.BeginPiece();
      for (int64_t k = 0; k < kPiece; ++k, b += g.b_stride, packed += kNr) {
        if constexpr (kPrefetchOperands) {
          a.Prefetch();
#pragma GCC unroll 4
          for (int j = 0; j <= NV; ++j) {
            // Rows of a matrix may begin within a line and end in one more.
            const float* line = b + g.b_ahead + (j < NV ? j * kLanes : NV * kLanes - 1);
            if (j == NV && kFrom == From::kCache) break;
            if constexpr (kFrom == From::kMemory) {
              __builtin_prefetch(line, 0, 2);
            } else {
              __builtin_prefetch(line, 0, 3);
            }
          }
        }
        Step<Math, MR, NV, kFrom>(a, b, packed, acc);
      }
    }
    g.ahead.b = next_b;
  }
  for (int64_t k = pieces * kPiece; k < g.depth; ++k, b += g.b_stride, packed += kNr) {
    Step<Math, MR, NV, kFrom>(a, b, packed, acc);
  }
  StoreTile<MR, NV>(g, acc);
}

using MicroFn = void (*)(MicroArgs&);
using Rows = std::make_integer_sequence<int, kMr>;
template <class Math, int NV, bool kUnitRow, From kFrom, int... kRows>
constexpr std::array<MicroFn, kMr> FnsFor(std::integer_sequence<int, kRows...>) {
  return {&Micro<Math, kRows + 1, NV, kUnitRow, kFrom>...};
}
// [unit row][vectors - 1][rows - 1]; panels that are packed on the way are whole.
template <class Math>
constexpr std::array<MicroFn, kMr> kFns[2][kNv] = {
    {FnsFor<Math, 1, false, From::kCache>(Rows()), FnsFor<Math, 2, false, From::kCache>(Rows())},
    {FnsFor<Math, 1, true, From::kCache>(Rows()), FnsFor<Math, 2, true, From::kCache>(Rows())}};
template <class Math>
constexpr std::array<MicroFn, kMr> kStoringFns[2] = {FnsFor<Math, 2, false, From::kMatrix>(Rows()),
                                                     FnsFor<Math, 2, true, From::kMatrix>(Rows())};
template <class Math>  // A is packed
constexpr std::array<MicroFn, kMr> kStreamingFns = FnsFor<Math, 2, true, From::kMemory>(Rows());

// What a tile needs beyond its block: position, and what comes after it.
struct TilePos {
  int64_t p = 0, j = 0;            // row panel, first column
  int64_t next_p = 0, next_j = 0;  // of the tile that follows
  bool last = false;
};

template <class Math>
void RunTile(const BlockArgs& g, const TilePos& t, MicroArgs& m) {
  const bool unit_row = g.a_layout != ALayout::kUnitK;
  const int64_t row = g.panels.Start(t.p);
  const size_t height = static_cast<size_t>(g.panels.Height(t.p));
  m.cols = std::min<int64_t>(kNr, g.cols - t.j);
  m.bias = g.finish.bias ? g.finish.bias + t.j : nullptr;
  m.a = g.a + (g.a_layout == ALayout::kPacked  ? row * g.depth
               : g.a_layout == ALayout::kUnitK ? row * g.a_stride
                                               : row);
  m.a_stride = g.a_layout == ALayout::kPacked ? g.panels.Height(t.p) : g.a_stride;
  m.c = g.c + row * g.ldc + t.j;
  m.sums = g.sums ? g.sums + row * g.ld_sums + t.j : nullptr;
  m.ahead.c_rows = g.panels.Height(t.next_p);
  m.ahead.c = t.last ? g.next_c : g.c + g.panels.Start(t.next_p) * g.ldc + t.next_j;
  const float* b = g.b + t.j / kNr * g.b_panel_stride;
  m.b_ahead = kAheadB * g.b_row_stride;
  if (t.p == 0 && g.source && m.cols == kNr) {
    m.b = g.source + t.j;
    m.b_stride = g.source_stride;
    m.b_ahead = kAheadB * g.source_stride;
    m.packed = const_cast<float*>(b);
    kStoringFns<Math>[unit_row][height - 1](m);
  } else if (kPrefetchOperands && g.streams_b && t.p == g.p0 && unit_row && m.cols > kLanes) {
    m.b = b;
    m.b_stride = g.b_row_stride;
    m.b_ahead = kPanelsAhead * g.b_panel_stride;
    kStreamingFns<Math>[height - 1](m);
  } else {
    m.b = b;
    m.b_stride = g.b_row_stride;
    kFns<Math>[unit_row][m.cols > kLanes][height - 1](m);
  }
  Activate(g.finish, m, static_cast<int64_t>(height));
}

// All tiles of one panel of B, which stays in L1 while A passes.
template <class Math>
void PanelsOutside(const BlockArgs& g, int64_t pieces, MicroArgs& m) {
  const bool spread = g.next_a.left > 0;  // over all tiles, instead of the next panel of B
  Lines& lines = m.ahead.b;
  lines = g.next_a;
  int64_t share = CeilDiv(lines.left, CeilDiv(g.cols, kNr) * (g.p1 - g.p0));
  for (int64_t j = 0; j < g.cols; j += kNr) {
    const bool last_panel = j + kNr >= g.cols;
    if (!spread) {
      const float* next = g.b + (j / kNr + 1) * g.b_panel_stride;
      lines = last_panel                          ? g.next
              : g.b_row_stride == kNr             ? Lines(next, 0, 1, 4 * kNr * g.depth)
              : g.streams_b && !kPrefetchOperands ? Lines(next, 4 * g.b_row_stride, g.depth, 4 * kNr)
                                                  : Lines();
      share = CeilDiv(lines.left, g.p1 - g.p0);
    }
    m.ahead.b_step = CeilDiv(share, pieces);
    for (int64_t p = g.p0; p < g.p1; ++p) {
      const bool last_row = p + 1 == g.p1;
      m.ahead.b_lines = std::min(share, lines.left);
      RunTile<Math>(g, {p, j, last_row ? g.p0 : p + 1, last_row ? j + kNr : j, last_row && last_panel}, m);
    }
  }
}

// The lines of row panel p of an A that is read in place; a packed one is a single stream, which hardware
// follows.
inline Lines LinesOfA(const BlockArgs& g, int64_t p) {
  constexpr int64_t kSize = sizeof(float);
  const int64_t row = g.panels.Start(p), height = g.panels.Height(p), stride = g.a_stride * kSize;
  if (g.a_layout == ALayout::kUnitK) return Lines(g.a + row * g.a_stride, stride, height, g.depth * kSize);
  if (g.a_layout == ALayout::kUnitRow) return Lines(g.a + row, stride, g.depth, height * kSize);
  return {};
}

// All tiles of one row panel, B stays in L1 as a whole, and next_b and next_a come meanwhile.
template <class Math>
void RowsWithNext(const BlockArgs& g, int64_t pieces, MicroArgs& m) {
  Lines a = g.next_a;
  Lines& lines = m.ahead.b;
  lines = g.next_b;
  const int64_t tiles = (g.p1 - g.p0) * CeilDiv(g.cols, kNr), share = CeilDiv(lines.left + a.left, tiles);
  m.ahead.b_step = CeilDiv(share, pieces);
  for (int64_t p = g.p0; p < g.p1; ++p) {
    const bool last_row = p + 1 == g.p1;
    for (int64_t j = 0; j < g.cols; j += kNr) {
      const bool last_col = j + kNr >= g.cols;
      if (lines.left == 0) std::swap(lines, a);
      m.ahead.b_lines = std::min(share, lines.left);
      RunTile<Math>(
          g, {p, j, last_col && !last_row ? p + 1 : p, last_col ? 0 : j + kNr, last_col && last_row}, m);
    }
  }
}

// All tiles of one row panel, B stays in L1 as a whole: A is read once and C written in whole lines.
template <class Math>
void RowsOutside(const BlockArgs& g, int64_t pieces, MicroArgs& m) {
  Lines& lines = m.ahead.b;
  for (int64_t p = g.p0; p < g.p1; ++p) {
    const bool last_row = p + 1 == g.p1;
    lines = last_row ? g.next : LinesOfA(g, p + 1);
    const int64_t share = CeilDiv(lines.left, CeilDiv(g.cols, kNr));
    m.ahead.b_step = CeilDiv(share, pieces);
    for (int64_t j = 0; j < g.cols; j += kNr) {
      const bool last_col = j + kNr >= g.cols;
      m.ahead.b_lines = std::min(share, lines.left);
      RunTile<Math>(
          g, {p, j, last_col && !last_row ? p + 1 : p, last_col ? 0 : j + kNr, last_col && last_row}, m);
    }
  }
}

// B up to this size leaves room in an L1 of 32 KiB for a row panel of A.
constexpr int64_t kResidentFloats = 20 * 1024 / sizeof(float);

template <class Math>
void RunBlock(const BlockArgs& g) {
  MicroArgs m{};
  m.ldc = g.ldc;
  m.depth = g.depth;
  m.ld_sums = g.ld_sums;
  m.adds = g.adds;
  m.finish = &g.finish;
  m.ahead.ldc = g.ldc;
  const int64_t pieces = std::max<int64_t>(1, g.depth / kPiece);
  m.ahead.c_step = CeilDiv(kMr, pieces);
  const bool resident = g.cols * g.depth <= kResidentFloats;
  if (resident && g.next_a.left > 0) {
    RowsWithNext<Math>(g, pieces, m);
  } else if (resident) {
    RowsOutside<Math>(g, pieces, m);
  } else {
    PanelsOutside<Math>(g, pieces, m);
  }
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
