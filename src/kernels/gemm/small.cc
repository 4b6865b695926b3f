// Batches of small products that follow each other in memory. Nothing is cut, packed or looked up between
// them, and each fetches its successor as evenly as can be: a core has some 16 requests on their way, and
// with groups of as many its loads wait (asked for every 16 steps instead of 4, a batch of 64^3 takes 6 %
// longer, one of 32^3 a quarter).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/small.cc"
#include <array>
#include <utility>

#include "isa/foreach_target.h"
#include "isa/hwy.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/micro-inl.h"

HWY_BEFORE_NAMESPACE();
namespace opsnn::gemm::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Tiers with 16 registers have no tile of four vectors.
constexpr bool kHasSmall = kLanes == 16;
// Rows of a tile: accumulators, the vectors of B and one of A in 32 registers.
constexpr int SmallRows(int vectors) { return std::min(kMr, 28 / vectors - (vectors > 2)); }
constexpr int64_t kFetchSteps = 4;

// Runs of lines to be fetched one after the other; the last goes on without end.
struct Runs {
  const char* at = nullptr;
  const char* end = nullptr;
  const char* begins[3] = {};
  const char* ends[3] = {};
  size_t next = 0;
  int64_t step = 0;  // lines at a time
};

template <bool kNear>
HWY_INLINE void Fetch(Runs& runs) {
  for (int64_t i = 0; i < runs.step; ++i, runs.at += 64) __builtin_prefetch(runs.at, 0, kNear ? 3 : 2);
  if (runs.at >= runs.end && runs.next < 3) {
    runs.at = runs.begins[runs.next];
    runs.end = runs.ends[runs.next++];
  }
}

template <int MR, int NV, bool kNear>
void SmallTile(const MicroArgs& g, Runs& shared) {
  const D d;
  V acc[MR][NV];
  LoadTile<MR, NV>(g, acc);
  UnitKA<MR> a(g);
  const float* b = g.b;
  Runs runs = shared;
  for (int64_t left = g.depth; left > 0; left -= kFetchSteps) {
    Fetch<kNear>(runs);
    const int64_t steps = std::min(kFetchSteps, left);
    for (int64_t k = 0; k < steps; ++k, b += g.b_stride) {
      V bk[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) bk[j] = hn::LoadU(d, b + j * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < MR; ++i) {
        const V ai = a.At(i);
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(ai, bk[j], acc[i][j]);
      }
      a.Advance();
    }
  }
  shared = runs;
  StoreTile<MR, NV>(g, acc);
}

using SmallFn = void (*)(const MicroArgs&, Runs&);
template <int NV, bool kNear, int... kRows>
constexpr std::array<SmallFn, kMr> SmallFns(std::integer_sequence<int, kRows...>) {
  return {&SmallTile<kRows + 1, NV, kNear>...};
}
template <int NV>
using Heights = std::make_integer_sequence<int, SmallRows(NV)>;
// [near][rows - 1]
template <int NV>
constexpr std::array<SmallFn, kMr> kSmallFns[2] = {SmallFns<NV, false>(Heights<NV>()),
                                                   SmallFns<NV, true>(Heights<NV>())};

template <int NV>
void RunVectors(const SmallBatch& s) {
  constexpr int64_t kCols = NV * kLanes, kLine = 64 / sizeof(float);
  const RowPanels panels(s.m, SmallRows(NV));
  const int64_t a_size = s.m * s.k, b_size = s.k * s.n, c_size = s.m * s.n;
  const int64_t lines = CeilDiv(a_size, kLine) + CeilDiv(b_size, kLine) + CeilDiv(c_size, kLine);
  const int64_t groups = panels.count * (s.n / kCols) * CeilDiv(s.k, kFetchSteps);
  constexpr int64_t kNearFloats = 32 * 1024 / sizeof(float);  // two products in an L1 of 32 KiB
  const auto& fns = kSmallFns<NV>[2 * (a_size + b_size + c_size) <= kNearFloats];
  MicroArgs m{};
  m.a_stride = s.k, m.b_stride = s.n, m.ldc = s.n;
  m.depth = s.k, m.cols = kCols;
  m.finish = &s.finish;
  for (int64_t i = 0; i < s.count; ++i) {
    const float *a = s.a + i * s.a_step, *b = s.b + i * s.b_step;
    float* c = s.c + i * s.c_step;
    Runs runs;
    const float* firsts[] = {b + s.b_step, a + s.a_step, c + s.c_step};
    const int64_t sizes[] = {b_size, a_size, c_size};
    for (size_t r = 0; r < 3; ++r) {
      runs.begins[r] = reinterpret_cast<const char*>(firsts[r]);
      runs.ends[r] = reinterpret_cast<const char*>(firsts[r] + sizes[r]);
    }
    runs.at = runs.begins[0], runs.end = runs.ends[0], runs.next = 1;
    if (i + 1 < s.count || s.continues) runs.step = CeilDiv(lines, groups);
    for (int64_t p = 0; p < panels.count; ++p) {
      const int64_t row = panels.Start(p), height = panels.Height(p);
      for (int64_t j = 0; j < s.n; j += kCols) {
        m.a = a + row * s.k, m.b = b + j, m.c = c + row * s.n + j;
        m.bias = s.finish.bias ? s.finish.bias + j : nullptr;
        fns[static_cast<size_t>(height - 1)](m, runs);
        Activate(s.finish, m, height);
      }
    }
  }
}

bool SmallBatchKernel(const SmallBatch* s, int64_t n) {
  if constexpr (kHasSmall) {
    const int64_t vectors = n % kLanes != 0         ? 0
                            : n <= 4 * kLanes       ? n / kLanes
                            : n % (4 * kLanes) == 0 ? 4
                                                    : 0;
    using Fn = void (*)(const SmallBatch&);
    constexpr Fn kFns[] = {nullptr, &RunVectors<1>, &RunVectors<2>, &RunVectors<3>, &RunVectors<4>};
    if (s && vectors > 0) kFns[vectors](*s);
    return vectors > 0;
  }
  return false;
}

}  // namespace opsnn::gemm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opsnn::gemm {
OPSNN_TIER_TABLE(SmallBatchKernel);
bool HasSmallBatch(int64_t n) { return OPSNN_TIER_CALL(SmallBatchKernel)(nullptr, n); }
void RunSmallBatch(const SmallBatch& s) { OPSNN_TIER_CALL(SmallBatchKernel)(&s, s.n); }
}  // namespace opsnn::gemm
#endif
