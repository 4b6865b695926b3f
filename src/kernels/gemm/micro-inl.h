// What the micro-kernels share: arguments, accumulators from and to C, ways to read A. Per-target guard.
#if defined(OPSNN_KERNELS_GEMM_MICRO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OPSNN_KERNELS_GEMM_MICRO_INL_H_
#undef OPSNN_KERNELS_GEMM_MICRO_INL_H_
#else
#define OPSNN_KERNELS_GEMM_MICRO_INL_H_
#endif

#include <algorithm>

#include "isa/hwy.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
// 32 registers: 28 accumulators, 2 of B, 1 of A. 16 registers: 12, 2 and 1; larger tiles spill.
constexpr int kMr = kLanes == 16 ? 14 : 6;
constexpr int kNv = 2;
constexpr int kNr = kNv * kLanes;

// What the next tiles will need and hardware prefetchers do not foresee: the rows of the next tile of C, and
// a share of the lines that the next panel of B is made from. Asked for line by line between pieces of the
// sum; a burst would stall it.
struct Ahead {
  const float* c = nullptr;
  int64_t ldc = 0, c_rows = 0, c_step = 0;  // rows in all, per piece
  Lines b;
  int64_t b_lines = 0, b_step = 0;
};
constexpr int64_t kPiece = 16;  // steps of k between two groups of prefetches: some 200 cycles
// Operands that come from L2 are asked for this many steps ahead, one line of A and a row of B's panel per
// step: hardware does not run ahead far enough for a core that multiplies at its peak. Where a step is short
// the load ports have no room for it.
constexpr bool kPrefetchOperands = kLanes == 16;
constexpr int64_t kAheadA = 32, kAheadB = 8;
// Of a B that comes from memory the first tile that reads a panel asks for the same rows of a later one, into
// L2: where rows lie a multiple of 4 KiB apart, L1 would push most of them out again (with prefetches into L1
// 16 rows against 4096 x 4096 took 12 ms where they take 5.4).
constexpr int64_t kPanelsAhead = 2;

// Where a tile waits for its activation: in C, whose lines may be on their way still, the values would be
// stored twice (on a Zen 4, 36 cycles a line behind 3136x64x64, 17 from here).
struct TileRoom {
  alignas(64) float values[kMr * kNr];
  TileRoom() {}  // NOLINT: left as it is, also where what holds it is set to zero
};

struct MicroArgs {
  const float* a;
  int64_t a_stride;
  const float* b;
  int64_t b_stride;
  int64_t b_ahead;  // from a row of B to what is asked for while it is used
  int64_t b_pair;   // wide tiles: from one panel to the next
  float* c;
  int64_t ldc;
  int64_t depth, cols;
  const float* sums;  // as in BlockArgs
  int64_t ld_sums;
  bool adds;
  const TileFinish* finish;
  const float* bias;
  float* packed;
  Ahead ahead;
  mutable TileRoom room;
};

template <int MR, int NV>
HWY_INLINE void LoadTile(const MicroArgs& g, V (&acc)[MR][NV]) {
  const D d;
  const size_t last = static_cast<size_t>(g.cols) - (NV - 1) * kLanes;
  if (!g.sums) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) acc[i][j] = hn::Zero(d);
    }
  } else {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const float* row = g.sums + i * g.ld_sums;
#pragma GCC unroll 4
      for (int j = 0; j < NV - 1; ++j) acc[i][j] = hn::LoadU(d, row + j * kLanes);
      const float* end = row + (NV - 1) * kLanes;
      acc[i][NV - 1] = last == kLanes ? hn::LoadU(d, end) : LoadFirst(d, end, last);
    }
  }
}

template <int MR, int NV>
HWY_INLINE void StoreTile(const MicroArgs& g, V (&acc)[MR][NV]) {
  const D d;
  const size_t last = static_cast<size_t>(g.cols) - (NV - 1) * kLanes;
  if (g.adds) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; ++i) {
      const float* row = g.c + i * g.ldc;
#pragma GCC unroll 4
      for (int j = 0; j < NV - 1; ++j) acc[i][j] = hn::Add(acc[i][j], hn::LoadU(d, row + j * kLanes));
      const float* end = row + (NV - 1) * kLanes;
      acc[i][NV - 1] = hn::Add(acc[i][NV - 1], last == kLanes ? hn::LoadU(d, end) : LoadFirst(d, end, last));
    }
  }
  if (g.finish->on) {
    const V lo = hn::Set(d, g.finish->lo), hi = hn::Set(d, g.finish->hi);
    const bool clips_above = g.finish->hi < __builtin_inff();
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      V bias = hn::Set(d, -0.0f);
      if (g.bias) {
        const float* p = g.bias + j * kLanes;
        bias = j < NV - 1 || last == kLanes ? hn::LoadU(d, p) : LoadFirst(d, p, last);
      }
      // The second operand of Max and Min is what x86 returns when either is NaN: NaN passes through.
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) acc[i][j] = hn::Max(lo, hn::Add(acc[i][j], bias));
      if (!clips_above) continue;
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) acc[i][j] = hn::Min(hi, acc[i][j]);
    }
  }
  static_assert(MR * NV <= kMr * kNv);
  const bool waits = g.finish->act != vector::RegAct::kNone;
  float* const to = waits ? g.room.values : g.c;
  const int64_t ld = waits ? NV * kLanes : g.ldc;
#pragma GCC unroll 16
  for (int i = 0; i < MR; ++i) {
    float* row = to + i * ld;
#pragma GCC unroll 4
    for (int j = 0; j < NV - 1; ++j) hn::StoreU(acc[i][j], d, row + j * kLanes);
    float* end = row + (NV - 1) * kLanes;
    if (last == kLanes) {
      hn::StoreU(acc[i][NV - 1], d, end);
    } else {
      StoreFirst(acc[i][NV - 1], d, end, last);
    }
  }
}

// The activation on a tile of `rows` rows that StoreTile left in its room, on the way to C.
HWY_INLINE void Activate(const TileFinish& f, const MicroArgs& g, int64_t rows) {
  if (f.act == vector::RegAct::kNone) return;
  const int64_t ld = CeilDiv(g.cols, kLanes) * kLanes;
  FinishRows({g.room.values, ld, g.c, g.ldc}, rows, g.cols, nullptr, f.act, f.act_imm);
}

// The panel of A at a[k * stride + i]: packed (stride MR) and transposed operands.
template <int MR>
struct UnitRowA {
  HWY_INLINE explicit UnitRowA(const MicroArgs& g) : a(g.a), stride(g.a_stride) {}
  HWY_INLINE V At(int i) const { return hn::Set(D(), a[i]); }
  HWY_INLINE void Advance() { a += stride; }
  HWY_INLINE void BeginPiece() {}
  HWY_INLINE void Prefetch() { __builtin_prefetch(a + kAheadA * stride, 0, 3); }
  const float* a;
  int64_t stride;
};

// The same at a[i * stride + k]. Rows are reached from every third row's pointer by the scaled addresses
// base + {0, 1, 2} * stride, so that 14 rows take 5 pointers and one stride register.
template <int MR>
struct UnitKA {
  static constexpr int kBases = (MR + 2) / 3;
  HWY_INLINE explicit UnitKA(const MicroArgs& g) : stride(g.a_stride) {
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) base[i] = g.a + 3 * i * stride;
  }
  HWY_INLINE V At(int i) const { return hn::Set(D(), base[i / 3][(i % 3) * stride]); }
  HWY_INLINE void Advance() {
#pragma GCC unroll 8
    for (int i = 0; i < kBases; ++i) ++base[i];
  }
  // A piece is as long as a line: in its course the line of every row is asked for, one per step.
  HWY_INLINE void BeginPiece() { line = base[0] + kAheadA; }
  HWY_INLINE void Prefetch() {
    __builtin_prefetch(line, 0, 3);
    line += stride;
  }
  const float* base[kBases];
  const float* line = nullptr;
  int64_t stride;
};

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
