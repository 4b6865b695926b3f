// The path for at most kMaxGemvRows rows or columns: cuts the long side into chunks and runs the kernels on
// them.
#include <algorithm>

#include "base/parallel.h"
#include "kernels/gemm/bf16_internal.h"
#include "kernels/gemm/internal.h"

namespace opsnn::gemm {
namespace {

// The chunk of C that is summed up in L2: 128 KiB at most. Wider chunks read B in longer runs, which is what
// counts: with eight rows and a quarter of the width memory delivers a quarter less.
constexpr int64_t kChunkFloats = 32768;
constexpr int64_t kMinChunk = 256;

// C of a chunk: in place, or in scratch where the epilogue's program stores.
struct ChunkC {
  float* data;
  int64_t ld;
};
ChunkC PlaceC(const Params& p, int64_t batch, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  if (p.c) return {p.c + batch * p.c_batch_stride + row * p.c_row_stride + col, p.c_row_stride};
  return {ThreadScratch(Scratch::kC, rows * cols), cols};
}

const void* At(const Operand& x, int64_t batch, int64_t row, int64_t col) {
  const int64_t element = batch * x.batch_stride + row * x.row_stride + col * x.col_stride;
  return static_cast<const char*>(x.data) + element * static_cast<int64_t>(SizeOf(x.dtype));
}

// The rows of A in f32 with unit stride along k, copied where they are not so. False when there is no memory.
bool SetRows(const Params& p, int64_t batch, GemvArgs& g) {
  const void* rows = At(p.a, batch, 0, 0);
  g.a = static_cast<const float*>(rows);
  g.lda = p.a.row_stride;
  if (p.a.col_stride == 1 && p.a.dtype == DType::kF32) return true;
  float* copy = ThreadScratch(Scratch::kA, p.m * p.k);
  if (!copy) return false;
  PackPanel({rows, p.a.dtype, p.a.col_stride, p.a.row_stride}, p.k, p.m, copy, p.k);
  g.a = copy;
  g.lda = p.k;
  return true;
}

void AddRows(const float* x, int64_t rows, int64_t cols, float* c, int64_t ldc) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < cols; ++j) c[r * ldc + j] += x[r * cols + j];
  }
}

// The rows of B, span by span (kSumSpan): sums of a later span are made apart and added.
void RowsBySpans(const Params& p, int64_t batch, int64_t col, GemvArgs& g) {
  float* const c = g.c;
  const float* const a = g.a;
  const int64_t ldc = g.ldc;
  float* apart = p.k > kSumSpan ? ThreadScratch(Scratch::kSpan, g.rows * g.cols) : nullptr;
  if (p.k > kSumSpan && !apart) return;
  for (int64_t k0 = 0; k0 < p.k; k0 += kSumSpan) {
    g.depth = std::min(kSumSpan, p.k - k0);
    g.a = a + k0, g.b = At(p.b, batch, k0, col);
    if (k0 > 0) g.c = apart, g.ldc = g.cols;
    GemvRows(g);
    if (k0 > 0) AddRows(apart, g.rows, g.cols, c, ldc);
  }
}

// The same on strips, whose columns lie one behind the other.
void StripsBySpans(const Params& p, int64_t batch, int64_t col, GemvArgs& g) {
  constexpr int64_t kColsInL2 = 64;
  const RowPanels groups(g.rows, kMaxGemvRows);
  const int64_t cols = g.cols, cols_at_once = groups.count == 1 ? cols : kColsInL2;
  const float* const a = g.a;
  float* const c = g.c;
  g.ldb = RoundUp(p.k, 16) * NzStrip(p.nz_b->dtype);
  for (int64_t k0 = 0; k0 < p.k; k0 += kSumSpan) {
    g.depth = std::min(kSumSpan, p.k - k0);
    for (int64_t j = 0; j < cols; j += cols_at_once) {
      g.cols = std::min(cols_at_once, cols - j), g.b = NzAt(*p.nz_b, batch, p.k, k0, col + j);
      for (int64_t i = 0; i < groups.count; ++i) {
        const int64_t row = groups.Start(i);
        g.rows = groups.Height(i), g.a = a + row * g.lda + k0, g.c = c + row * g.ldc + j;
        GemvStrips(g, k0 > 0);
      }
    }
  }
}

// Dots with columns that are brought together from strips, as many at a time as stay in L2.
void StripDots(const Params& p, int64_t batch, int64_t col, GemvArgs& g) {
  constexpr int64_t kBytes = 512 * 1024, kMostColumns = 64, kGroup = 8;
  const NzOperand& b = *p.nz_b;
  const int64_t size = static_cast<int64_t>(SizeOf(b.dtype)), cols = g.cols;
  g.ldb = RoundUp(p.k, 32) + 32;  // an odd number of lines where k is a power of two: not all in a few sets
  const int64_t fit = std::clamp(kBytes / (g.ldb * size) / kGroup * kGroup, kGroup, kMostColumns);
  float* rows = ThreadScratch(Scratch::kB, fit * g.ldb);
  if (!rows) return;
  g.b = rows;
  for (int64_t j = 0; j < cols; j += fit, g.c += fit) {
    g.cols = std::min(fit, cols - j);
    UnpackNzColumns(b, p.k, p.n, {batch, col + j, g.cols}, rows, g.ldb);
    GemvDots(g, 1);
  }
}

void FewRows(const Params& p, int64_t batch, int64_t col, int64_t cols) {
  const ChunkC c = PlaceC(p, batch, 0, col, p.m, cols);
  if (!c.data) return;
  // A single column of unit row stride is one long dot.
  const bool dots = p.b.col_stride != 1 || (p.n == 1 && p.b.row_stride == 1);
  if (p.bf16_pairs) {
    FewPairRows(p, {batch, 0, p.m, col, cols}, dots, c.data, c.ld);
    return FinishBlock(p, batch, 0, col, c.data, c.ld, p.m, cols, false);
  }
  GemvArgs g;
  g.rows = p.m, g.cols = cols, g.depth = p.k;
  if (!SetRows(p, batch, g)) return;
  g.b_dtype = p.nz_b ? p.nz_b->dtype : p.b.dtype;
  g.c = c.data, g.ldc = c.ld;
  if (p.nz_b) {
    p.nz_b->transposed ? StripDots(p, batch, col, g) : StripsBySpans(p, batch, col, g);
  } else if (dots) {
    g.b = At(p.b, batch, 0, col), g.ldb = p.b.col_stride;
    GemvDots(g, 1);
  } else {
    g.ldb = p.b.row_stride;
    RowsBySpans(p, batch, col, g);
  }
  FinishBlock(p, batch, 0, col, c.data, c.ld, p.m, cols, false);
}

// The roles change: the columns of B are the few vectors, A is streamed.
void FewColumns(const Params& p, int64_t batch, int64_t row, int64_t rows) {
  const ChunkC c = PlaceC(p, batch, row, 0, rows, p.n);
  float* columns = ThreadScratch(Scratch::kB, p.n * p.k);
  if (!c.data || !columns) return;
  if (p.nz_b && p.nz_b->transposed) {
    UnpackNzColumns(*p.nz_b, p.k, p.n, {batch, 0, p.n}, columns, p.k);
  } else if (p.nz_b) {  // one strip
    static_assert(kMaxGemvRows <= 8);
    PackPanel({NzAt(*p.nz_b, batch, p.k, 0, 0), DType::kF32, NzStrip(DType::kF32), 1}, p.k, p.n, columns,
              p.k);
  } else {
    PackPanel({At(p.b, batch, 0, 0), DType::kF32, p.b.row_stride, p.b.col_stride}, p.k, p.n, columns, p.k);
  }
  GemvArgs g;
  g.rows = p.n, g.cols = rows, g.depth = p.k;
  g.a = columns, g.lda = p.k;
  g.b = At(p.a, batch, row, 0), g.ldb = p.a.row_stride;
  g.c = c.data, g.ldc = 1;
  GemvDots(g, c.ld);
  FinishBlock(p, batch, row, 0, c.data, c.ld, rows, p.n, false);
}

// The columns of a group of rows of B, of which the next one is asked for meanwhile: so many that this takes
// a third of L2 at most.
int64_t ColumnsAhead(const Params& p) {
  const int64_t size = static_cast<int64_t>(SizeOf(p.nz_b ? p.nz_b->dtype : p.b.dtype));
  const int64_t bytes = p.blocking.direct_floats * static_cast<int64_t>(sizeof(float)) * 3 / 8;
  const int64_t most = RoundUp(bytes / (GemvStreams(p.m) * size), kMinChunk);
  return RoundUp(CeilDiv(p.n, CeilDiv(p.n, most)), kMinChunk);
}

}  // namespace

void RunGemv(const Params& p) {
  const bool few_rows = HasFewRows(p);
  const int64_t few = few_rows ? p.m : p.n, many = few_rows ? p.n : p.m;
  const DType streamed = !few_rows ? p.a.dtype : p.nz_b ? p.nz_b->dtype : p.b.dtype;
  const int64_t read = many * p.k * p.batch;
  const int threads = ThreadsFor(few * read, 1, read * static_cast<int64_t>(SizeOf(streamed)));
  int64_t chunk = std::max(kMinChunk, RoundUp(kChunkFloats / few, kMinChunk));
  if (few_rows) chunk = std::min(chunk, ColumnsAhead(p));
  if (threads > 1)
    chunk = std::min(chunk, std::max(kMinChunk, RoundUp(CeilDiv(many, 2 * threads), kMinChunk)));
  const int64_t chunks = CeilDiv(many, chunk);
  const auto run = [&](int64_t i, int) {
    const int64_t batch = i / chunks, first = i % chunks * chunk, count = std::min(chunk, many - first);
    few_rows ? FewRows(p, batch, first, count) : FewColumns(p, batch, first, count);
  };
  if (threads == 1) {
    for (int64_t i = 0; i < chunks * p.batch; ++i) run(i, 0);
  } else {
    ParallelFor(chunks * p.batch, run);
  }
}

}  // namespace opsnn::gemm
