// Between the driver (gemm.cc, gemv_driver.cc) and the tier files. Not for other modules.
#ifndef OPSNN_KERNELS_GEMM_INTERNAL_H_
#define OPSNN_KERNELS_GEMM_INTERNAL_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "base/parallel.h"
#include "kernels/gemm/gemm.h"

namespace opsnn::gemm {

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// The depth of K blocks: all about equal, so that the last is not a stump.
inline int64_t KStep(int64_t k, int64_t kc) { return k <= kc ? k : RoundUp(CeilDiv(k, CeilDiv(k, kc)), 16); }

// A sum over k is cut into spans of this length, which are added in order: one long chain of equal terms
// would round in the same direction thousands of times. The cut depends on k alone, so that every split of
// the rows, and every path but dots (GemvDots: sums by lanes), gives the same bits.
inline constexpr int64_t kSumSpan = 2048;
// The same in what a product counts along k: words of two values where it multiplies pairs.
inline int64_t SumSpan(bool pairs) { return pairs ? kSumSpan / 2 : kSumSpan; }
// The depth of the K block that begins at k0: spans are cut into equal parts of at most about kc.
inline int64_t KDepth(int64_t k, int64_t k0, int64_t kc, bool pairs = false) {
  const int64_t most = SumSpan(pairs), begin = k0 / most * most, span = std::min(most, k - begin);
  return std::min(KStep(span, kc), begin + span - k0);
}

// How many threads `work` multiply-adds are worth, of which an instruction does `per_lane` for every f32 lane
// of a vector; they read `bytes` at least. To be asked once for a call (ThreadsWorth).
int ThreadsFor(int64_t work, double per_lane = 1, int64_t bytes = 0);
// fn(i) for i < n, by the calling thread or by all.
void ForEach(int64_t n, int threads, FunctionRef<void(int64_t)> fn);

// Cuts `rows` into ceil(rows / mr) panels whose heights differ by at most one: 128 rows with mr = 14 give
// 8 panels of 13 and 2 of 12, all near the peak, instead of 9 of 14 and a slow one of 2.
struct RowPanels {
  int64_t count = 0, base = 0, extra = 0;
  RowPanels() = default;
  RowPanels(int64_t rows, int64_t mr) : count(CeilDiv(rows, mr)) {
    if (count > 0) base = rows / count, extra = rows % count;
  }
  int64_t Start(int64_t p) const { return p * base + std::min(p, extra); }
  int64_t Height(int64_t p) const { return base + (p < extra ? 1 : 0); }
};

// Where a panel of A lies. Packed: panels behind each other, k-major. Else in place with one unit stride.
enum class ALayout : uint8_t { kPacked, kUnitRow /* row_stride 1 */, kUnitK /* col_stride 1 */ };

// The part of the epilogue that every tile applies: in registers x = clip(x + bias, lo, hi), where neutral
// values (-0, -Inf, +Inf) leave every x as it is, NaN and -0 included; then any other activation, as soon as
// the tile is stored.
struct TileFinish {
  bool on = false;
  const float* bias = nullptr;  // of the block's first column, or null
  float lo = 0, hi = 0;
  vector::RegAct act = vector::RegAct::kNone;
  const float* act_imm = nullptr;
};

// Cache lines of `rows` rows to prefetch, in order. Rows that do not start with a line touch one more.
struct Lines {
  const char* row = nullptr;
  int64_t row_bytes = 0, per_row = 0, line = 0, left = 0;
  Lines() = default;
  Lines(const void* first, int64_t stride_bytes, int64_t rows, int64_t bytes)
      : row(static_cast<const char*>(first)), row_bytes(stride_bytes) {
    if (stride_bytes == bytes) bytes *= rows, rows = 1;  // one run of lines
    const auto offset =
        reinterpret_cast<uintptr_t>(first) | (rows > 1 ? static_cast<uint64_t>(stride_bytes) : 0);
    per_row = CeilDiv(bytes, 64) + (offset % 64 != 0);
    left = rows * per_row;
  }
  const char* Next() {
    const char* p = row + line * 64;
    --left;
    if (++line == per_row) line = 0, row += row_bytes;
    return p;
  }
};

// rows [Start(p0), Start(p1)) x [0, cols) of C (+)= A x B over `depth`.
struct BlockArgs {
  RowPanels panels;
  int64_t p0 = 0, p1 = 0;
  int64_t cols = 0, depth = 0;
  const float* a = nullptr;
  ALayout a_layout = ALayout::kPacked;
  int64_t a_stride = 0;      // the stride that is not 1; unused when packed
  const float* b = nullptr;  // panel j at b + j * b_panel_stride, row k of it at + k * b_row_stride
  int64_t b_panel_stride = 0, b_row_stride = 0;
  bool streams_b = false;  // from memory, where it lies
  // Not null: whole panels are not packed yet, column j of row k lies at source + k * source_stride + j; the
  // tile of row panel 0 writes them to b.
  const float* source = nullptr;
  int64_t source_stride = 0;
  float* c = nullptr;  // row Start(0), column 0
  int64_t ldc = 0;
  // Where the sums of the span's earlier blocks lie and go on from, null in its first block; like c.
  const float* sums = nullptr;
  int64_t ld_sums = 0;
  bool adds = false;  // the span's sums are added to those of earlier spans, which lie in C
  TileFinish finish;
  Lines next;  // what will be needed after this block
  const float* next_c = nullptr;
  // Asked for throughout a block that reads B in place: the operands of the next product of a batch, or an
  // operand of this block's epilogue in next_a.
  Lines next_a, next_b;
  Lines next_out;  // wide tiles: of C of that product
};
void MacroBlock(const BlockArgs& args);
// The same by tiles of WideRows() rows and two panels, row panel by row panel; columns fill them but for less
// than a vector in the last. No `source`. 0 rows: the tier has no such tiles.
void WideBlock(const BlockArgs& args);
int64_t WideRows();

// `count` products m x n x k of a batch whose matrices are row-major without gaps, `step` elements apart (0:
// the same); one more follows them where `continues`.
struct SmallBatch {
  int64_t m = 0, n = 0, k = 0, count = 0;
  const float *a = nullptr, *b = nullptr;
  float* c = nullptr;
  int64_t a_step = 0, b_step = 0, c_step = 0;
  bool continues = false;
  TileFinish finish;
};
bool HasSmallBatch(int64_t n);  // does this tier have tiles for such columns?
void RunSmallBatch(const SmallBatch& batch);

// A source of floats for packing: element (i, k) of dtype at data + i * i_stride + k * k_stride.
struct PackSource {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t i_stride = 0, k_stride = 0;
  // Not 0: of words of bf16 pairs instead (bf16_internal.h), and this many values lie along k.
  int64_t pair_k = 0;
  int64_t next = 0;  // elements from here to what is packed after it and may be asked for meanwhile
  PackSource At(int64_t i, int64_t k) const {
    PackSource s = *this;
    if (pair_k > 0) s.pair_k -= 2 * k, k *= 2;
    s.data =
        static_cast<const char*>(data) + (i * i_stride + k * k_stride) * static_cast<int64_t>(SizeOf(dtype));
    return s;
  }
};
// One matrix of A as rows, of B as columns.
PackSource Rows(const Operand& a, int64_t batch);
PackSource Columns(const Operand& b, int64_t batch);
// dst[k * ld + i] = source(i, k) for i < width, k < depth; zero for width <= i < ld. Words count as floats.
void PackPanel(const PackSource& source, int64_t width, int64_t depth, float* dst, int64_t ld);

// One block of a panel of matrix `which`: rows [k0, k0 + depth) of columns [col, col + width), zero up to nr.
struct PanelPiece {
  int64_t which = 0, col = 0, width = 0, k0 = 0, depth = 0, nr = 0;
  bool pairs = false;  // k0 and depth count words
};
// Where element (row, col) of the stored matrix lies in matrix `which`.
const char* NzAt(const NzOperand& b, int64_t which, int64_t stored_rows, int64_t row, int64_t col);
void PackNzPanel(const NzOperand& b, int64_t k, int64_t n, const PanelPiece& t, float* dst);
// `width` columns of `depth` rows of a strip, widened: dst[r * ld + i]. The width is a multiple of 8.
void PackStrip(DType dtype, const void* src, int64_t width, int64_t depth, float* dst, int64_t ld);
// The columns of t of a transposed B, all k of each, as rows of their own dtype that are `ld` elements apart.
void UnpackNzColumns(const NzOperand& b, int64_t k, int64_t n, const PanelPiece& t, void* dst, int64_t ld);

// y = act(x + bias) over rows x cols, x and y the same or apart; null bias: none.
struct FromTo {
  const float* x = nullptr;
  int64_t ldx = 0;
  float* y = nullptr;
  int64_t ldy = 0;
};
void FinishRows(const FromTo& at, int64_t rows, int64_t cols, const float* bias, vector::RegAct act,
                const float act_imm[2]);

// y[r][j] (+)= sum_k a[r][k] * b[k][j], rows <= kMaxGemvRows, unit stride along j and along k of a; b of f32,
// f16 or bf16.
struct GemvArgs {
  int64_t rows = 0, cols = 0, depth = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const void* b = nullptr;
  DType b_dtype = DType::kF32;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
};
void GemvRows(const GemvArgs& args);
// Rows of B that it reads side by side: each is a stream of its own for the hardware prefetchers, which
// follow some 32, and the sums in C are read and written once per group. With many rows of C that traffic is
// what counts.
constexpr int64_t GemvStreams(int64_t rows) { return rows <= 2 ? 8 : 16; }
// The same with b[j * ldb + k], unit stride along k; result (r, j) at c[r * ldc + j * c_col_stride].
void GemvDots(const GemvArgs& args, int64_t c_col_stride);
// GemvRows on strips: g.b is the first of them, g.ldb what lies between the starts of two. Sums are added to
// C where `adds`.
void GemvStrips(const GemvArgs& args, bool adds);

void RunGemv(const Params& p);
// Are the rows of A few enough for kGemv? Strips along k are contiguous for a span of it, so that some
// columns of them stay in L2 for a second group of rows.
inline bool HasFewRows(const Params& p) {
  constexpr int64_t kMostOnStrips = 2 * kMaxGemvRows;
  const bool strips = p.nz_b && !p.nz_b->transposed && p.n > kMaxGemvRows;
  return p.m <= (strips ? kMostOnStrips : kMaxGemvRows);
}

// Memory of this thread that lives until the thread ends; one buffer per use.
enum class Scratch : uint8_t { kA, kB, kC, kConvert, kSpan, kColumns, kPadded, kCount };
float* ThreadScratch(Scratch use, int64_t floats);

// The epilogue on rows x cols of C that are still in cache; `c` is its first element, (row, col) its
// position. `in_tile` says that tiles have applied all but the program.
void FinishBlock(const Params& p, int64_t batch, int64_t row, int64_t col, float* c, int64_t ldc,
                 int64_t rows, int64_t cols, bool in_tile);
// A block of C: rows from `row` on, columns from `col` on.
struct CBlock {
  int64_t batch = 0, row = 0, rows = 0, col = 0, cols = 0;
};
// An epilogue's program on such a block, which is its input 0; operands are all others.
void RunProgram(const vector::CompiledProgram& program, std::span<const vector::EpilogueArg> operands,
                const vector::BlockArg& block, CBlock at);
// The same by as many rows at a time as stay in L1.
void RunProgramByRows(const vector::CompiledProgram& program, std::span<const vector::EpilogueArg> operands,
                      vector::BlockArg block, CBlock at);
// Lets C be summed up in an output of the program, which then works in place: nothing passes through scratch.
// Needs an f32 output of unit column stride whose memory no other operand of the program shares.
void SumInOutput(Params& p);
// What tiles do themselves of the epilogue: all but its program, which FinishBlock runs.
TileFinish TilePart(const vector::Epilogue& e, int64_t col);

}  // namespace opsnn::gemm

#endif  // OPSNN_KERNELS_GEMM_INTERNAL_H_
