// Few rows of bf16 by dot products of pairs: where operands lie, spans of k.
#include <algorithm>

#include "kernels/gemm/bf16_internal.h"

namespace opsnn::gemm {
namespace {

const uint16_t* At(const Operand& x, int64_t batch, int64_t col) {
  return static_cast<const uint16_t*>(x.data) + batch * x.batch_stride + col * x.col_stride;
}

// The rows of A with unit stride along k, copied where they are not so. False when there is no memory.
bool SetRows(const Params& p, int64_t batch, PairGemvArgs& g) {
  const uint16_t* a = At(p.a, batch, 0);
  g.a = a, g.lda = p.a.row_stride;
  if (p.a.col_stride == 1) return true;
  auto* rows = reinterpret_cast<uint16_t*>(ThreadScratch(Scratch::kA, CeilDiv(p.m * p.k, 2)));
  if (!rows) return false;
  for (int64_t r = 0; r < p.m; ++r) {
    for (int64_t k = 0; k < p.k; ++k) rows[r * p.k + k] = a[r * p.a.row_stride + k * p.a.col_stride];
  }
  g.a = rows, g.lda = p.k;
  return true;
}

// Span by span (kSumSpan): sums of a later span are made apart and added.
void RowsBySpans(PairGemvArgs g) {
  const int64_t k = g.depth, ldc = g.ldc;
  float* const c = g.c;
  float* apart = k > kSumSpan ? ThreadScratch(Scratch::kSpan, g.rows * g.cols) : nullptr;
  if (k > kSumSpan && !apart) return;
  for (int64_t k0 = 0; k0 < k; k0 += kSumSpan, g.a += kSumSpan, g.b += kSumSpan * g.ldb) {
    g.depth = std::min(kSumSpan, k - k0);
    if (k0 > 0) g.c = apart, g.ldc = g.cols;
    PairGemvRows(g);
    for (int64_t r = 0; k0 > 0 && r < g.rows; ++r) {
      for (int64_t j = 0; j < g.cols; ++j) c[r * ldc + j] += apart[r * g.cols + j];
    }
  }
}

// Strips of columns, as many of them at a time as stay in L2 for a second group of rows.
void StripsBySpans(const Params& p, const CBlock& at, const PairGemvArgs& whole) {
  constexpr int64_t kColsInL2 = 64;
  const RowPanels groups(at.rows, kMaxGemvRows);
  const int64_t cols_at_once = groups.count == 1 ? at.cols : kColsInL2;
  PairGemvArgs g = whole;
  g.ldb = RoundUp(p.k, 16) * NzStrip(DType::kBF16);
  for (int64_t k0 = 0; k0 < p.k; k0 += kSumSpan) {
    g.depth = std::min(kSumSpan, p.k - k0);
    for (int64_t j = 0; j < at.cols; j += cols_at_once) {
      g.cols = std::min(cols_at_once, at.cols - j);
      g.b = reinterpret_cast<const uint16_t*>(NzAt(*p.nz_b, at.batch, p.k, k0, at.col + j));
      for (int64_t i = 0; i < groups.count; ++i) {
        const int64_t row = groups.Start(i);
        g.rows = groups.Height(i);
        g.a = whole.a + row * g.lda + k0, g.c = whole.c + row * g.ldc + j;
        PairGemvStrips(g, k0 > 0);
      }
    }
  }
}

// Dots with columns that are brought together from strips, as many at a time as stay in L2.
void StripDots(const Params& p, const CBlock& at, PairGemvArgs g) {
  constexpr int64_t kBytes = 512 * 1024, kMostColumns = 64, kGroup = 8;
  constexpr int64_t kSize = sizeof(uint16_t);
  g.ldb = RoundUp(p.k, 32) + 32;  // an odd number of lines where k is a power of two: not all in a few sets
  const int64_t fit = std::clamp(kBytes / (g.ldb * kSize) / kGroup * kGroup, kGroup, kMostColumns);
  auto* rows = reinterpret_cast<uint16_t*>(ThreadScratch(Scratch::kB, CeilDiv(fit * g.ldb, 2)));
  if (!rows) return;
  g.b = rows;
  for (int64_t j = 0; j < at.cols; j += fit, g.c += fit) {
    g.cols = std::min(fit, at.cols - j);
    UnpackNzColumns(*p.nz_b, p.k, p.n, {at.batch, at.col + j, g.cols}, rows, g.ldb);
    PairGemvDots(g);
  }
}

}  // namespace

void FewPairRows(const Params& p, const CBlock& at, bool dots, float* c, int64_t ldc) {
  PairGemvArgs g;
  g.rows = at.rows, g.cols = at.cols, g.depth = p.k;
  g.c = c, g.ldc = ldc;
  if (!SetRows(p, at.batch, g)) return;
  if (p.nz_b) return p.nz_b->transposed ? StripDots(p, at, g) : StripsBySpans(p, at, g);
  g.b = At(p.b, at.batch, at.col);
  g.ldb = dots ? p.b.col_stride : p.b.row_stride;
  dots ? PairGemvDots(g) : RowsBySpans(g);
}

}  // namespace opsnn::gemm
