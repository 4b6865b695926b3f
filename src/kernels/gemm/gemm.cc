// The driver: choice of path, cutting into tiles, packing, threads.
#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/gemm/bf16_internal.h"
#include "kernels/gemm/internal.h"
#include "kernels/gemm/peak.h"

namespace opsnn::gemm {
namespace {

// A task should be at least this large, so that claiming it costs nothing.
constexpr int64_t kTaskWork = 1 << 18;
// The block on which a program runs: about 64 x 128 floats, what stays in L1 between the tiles and the
// program. Behind wide tiles, which pass row by row anyhow, it is as wide as C or this: a program takes whole
// rows of C for one long run, and few rows do not push each other out of L1 where their stride is a power of
// two.
constexpr int64_t kBlockRows = 64, kBlockCols = 128, kWideBlockCols = 1024, kBlockFloats = 6 * 1024;
// Wide tiles read a block of B up to this size from L2, which A and C pass.
constexpr int64_t kWideFloats = 64 * 1024;
// Without a C of its own a tile is computed in scratch: at most this many columns, so that it stays in L2.
constexpr int64_t kMaxScratchCols = 512;

struct Tile {
  int64_t batch = 0, row = 0, col = 0, rows = 0, cols = 0;
};

// What the tiles of one run share.
struct Job {
  const Params* p = nullptr;
  Path path = Path::kPacked;
  bool wide = false;  // tiles of two panels (wide.cc)
  MicroTile micro;
  int64_t kc = 0;      // of KDepth
  int64_t pair_k = 0;  // values along k where the product is one of pairs: all else counts words there
  const float* packed =
      nullptr;  // kPacked: columns [packed_col, packed_col + packed_width) of the batch in hand
  int64_t packed_col = 0, packed_width = 0;
};

// Rows of a tile on the direct path: as many as the caches hold beside B.
int64_t DirectRows(const Params& p) {
  return (p.blocking.direct_floats - p.k * p.n) / std::max<int64_t>(1, p.k + p.n);
}
constexpr int64_t kMinDirectRows = 64;

// kStream: up to this many rows, those of one register tile, every line of B is read by one tile, so that a
// packed panel is read no more often than written. Where rows of B lie a multiple of 4 KiB apart, the lines
// of a panel as deep as kc share few sets of L2 and push each other out before they are packed: then shallow
// blocks in place win up to three tiles (measured at n = 2048 to 8192: by 5 to 30 %), behind which the
// multiply-adds on a line take as long as the line takes from memory.
constexpr int64_t kMaxStreamRows = 14, kMaxAliasedRows = 42, kAliasBytes = 4096;
// The depth of such blocks: C is read and written once for each. Of deep ones whose rows lie a multiple of
// L2's ways apart few lines stay there for the tiles that follow; the others come from L3, in time where a
// step takes long.
int64_t StreamDepth() {
  constexpr int64_t kDeep = 256, kShallow = 64;
  constexpr double kLongStep = 20;
  return StepCycles() >= kLongStep ? kDeep : kShallow;
}

// Do a few rows stream a B that is too large for the caches?
bool StreamPays(const Params& p) {
  const bool aliased = p.b.row_stride * static_cast<int64_t>(sizeof(float)) % kAliasBytes == 0;
  return p.m <= (aliased ? kMaxAliasedRows : kMaxStreamRows) && p.k * p.n > p.blocking.direct_floats;
}

// From so many rows on the sums of a tile take fewer instructions than those of kGemv, which reads and writes
// its sums 16 to 32 times as often: with eight, 4096 x 4096 take 2.8 ms instead of 4.8. With 16 registers
// tiles are narrower.
int64_t LeastStreamRows() { return TileFor(isa::ActiveTier()).mr > kMaxGemvRows ? 5 : 6; }

bool IsUnitF32(const Operand& x) {
  return x.dtype == DType::kF32 && (x.row_stride == 1 || x.col_stride == 1);
}

// Rows of A that a tile reads side by side must not fall into the same few sets of L1: no row stride of a
// multiple of half its 4 KiB ways. Packing pays when its result is read often.
bool ReadsAInPlace(const Job& job) {
  const Params& p = *job.p;
  if (!IsUnitF32(p.a)) return false;
  if (job.path == Path::kDirect || job.wide) return true;
  if (job.path == Path::kStream) return false;
  return p.n <= p.blocking.in_place_cols && (p.a.col_stride != 1 || p.a.row_stride * 4 % 2048 != 0);
}

// Operands that were not turned into words (AsWords) are so when they are packed.
PackSource OfPairs(const Job& job, PackSource s) {
  if (s.dtype == DType::kBF16) s.pair_k = job.pair_k;
  return s;
}

// Packs or points at the rows of A for one K block. False when there is no memory.
bool SetA(const Job& job, const Tile& t, int64_t k0, BlockArgs& g) {
  const Params& p = *job.p;
  const PackSource a = OfPairs(job, Rows(p.a, t.batch)).At(t.row, k0);
  if (ReadsAInPlace(job)) {
    g.a = static_cast<const float*>(a.data);
    g.a_layout = a.k_stride == 1 ? ALayout::kUnitK : ALayout::kUnitRow;
    g.a_stride = a.k_stride == 1 ? a.i_stride : a.k_stride;
    return true;
  }
  float* dst = ThreadScratch(Scratch::kA, t.rows * g.depth);
  if (!dst) return false;
  for (int64_t i = 0; i < g.panels.count; ++i) {
    const int64_t row = g.panels.Start(i), height = g.panels.Height(i);
    PackSource rows = a.At(row, 0);
    rows.next = height * a.i_stride;
    PackPanel(rows, height, g.depth, dst + row * g.depth, height);
  }
  g.a = dst;
  g.a_layout = ALayout::kPacked;
  return true;
}

// Sets B for columns [col, col + cols) of the tile: where it lies, or packed into this thread's scratch.
// False when there is no memory.
bool SetB(const Job& job, const Tile& t, int64_t k0, int64_t col, int64_t cols, BlockArgs& g) {
  const Params& p = *job.p;
  const int64_t nr = job.micro.nr, first = t.col + col;
  g.b_row_stride = nr;
  g.b_panel_stride = nr * g.depth;
  g.source = nullptr;
  if (job.path == Path::kPacked) {
    g.b = job.packed + k0 * job.packed_width + first * g.depth;
    return true;
  }
  if (p.nz_b) {
    float* panels = ThreadScratch(Scratch::kB, RoundUp(cols, nr) * g.depth);
    if (!panels) return false;
    for (int64_t j = 0; j < cols; j += nr) {
      PackNzPanel(*p.nz_b, p.bf16_pairs ? job.pair_k : p.k, p.n,
                  {t.batch, first + j, std::min(nr, cols - j), k0, g.depth, nr, p.bf16_pairs},
                  panels + j * g.depth);
    }
    g.b = panels;
    return true;
  }
  const PackSource b = OfPairs(job, Columns(p.b, t.batch)).At(first, k0);
  if (job.path != Path::kPanel && cols % (nr / 2) == 0) {
    g.b = static_cast<const float*>(b.data);
    g.b_row_stride = b.k_stride;
    g.b_panel_stride = nr;
    return true;
  }
  float* dst = ThreadScratch(Scratch::kB, RoundUp(cols, nr) * g.depth);
  if (!dst) return false;
  int64_t first_packed = 0;
  if (b.i_stride == 1 &&
      b.dtype == DType::kF32) {  // whole panels are packed by the first tile that reads them
    g.source = static_cast<const float*>(b.data);
    g.source_stride = b.k_stride;
    first_packed = cols / nr * nr;
  }
  for (int64_t j = first_packed; j < cols; j += nr) {
    PackPanel(b.At(j, 0), std::min(nr, cols - j), g.depth, dst + j * g.depth, nr);
  }
  g.b = dst;
  return true;
}

// Columns that are handled together. Programs want blocks, panels of B one that stays in L1; in place, whole
// vectors are separated from the rest, which must be packed because a load would reach beyond the row.
int64_t GroupCols(const Job& job, int64_t rows, int64_t left, bool block_pass) {
  const int64_t nr = job.micro.nr, lanes = nr / 2;
  int64_t cols = left;
  if (job.wide && cols >= 2 * nr) {
    if (block_pass) cols = std::min(cols, RoundUp(kWideBlockCols, 2 * nr));
    const int64_t rest = cols % (2 * nr);
    return rest > 2 * nr - lanes && job.path == Path::kPacked ? cols : cols - rest;
  }
  // Few rows leave room for long ones: a program takes some 100 cycles for each beside its elements.
  if (block_pass) cols = std::min(cols, RoundUp(std::max(kBlockCols, kBlockFloats / rows), nr));
  if (job.path == Path::kPanel) cols = std::min(left, nr);
  const bool in_place = job.path == Path::kDirect || job.path == Path::kStream;
  if (in_place && cols > lanes && cols % lanes != 0) cols -= cols % lanes;
  return cols;
}

// The lines of strips in which a block of a panel lies.
Lines NzLines(const Job& job, PanelPiece t) {
  const Params& p = *job.p;
  int64_t k = p.k;
  if (p.bf16_pairs) t.k0 *= 2, k = job.pair_k, t.depth = std::min(2 * t.depth, k - t.k0);
  constexpr int64_t kBytes = 32;  // of a strip's row
  const NzOperand& b = *p.nz_b;
  const int64_t rows = b.transposed ? t.width : t.depth, cols = b.transposed ? t.depth : t.width;
  const int64_t stored = b.transposed ? p.n : k;
  const char* first =
      b.transposed ? NzAt(b, t.which, stored, t.col, t.k0) : NzAt(b, t.which, stored, t.k0, t.col);
  return Lines(first, RoundUp(stored, 16) * kBytes, CeilDiv(cols, NzStrip(b.dtype)), rows * kBytes);
}

// The lines of B that will be packed after columns [col, col + cols) of the K block at k0, or with which the
// next block of rows begins where B is streamed.
Lines NextLines(const Job& job, const Tile& t, int64_t k0, int64_t col, int64_t cols, int64_t depth) {
  const Params& p = *job.p;
  if (job.path != Path::kPanel && job.path != Path::kStream) return {};
  int64_t next = col + cols;
  if (next >= t.cols) next = 0, k0 += depth;
  if (k0 >= p.k) return {};
  if (p.nz_b)
    return NzLines(job,
                   {t.batch, t.col + next, std::min(t.cols - next, cols), k0, std::min(depth, p.k - k0)});
  const PackSource b = OfPairs(job, Columns(p.b, t.batch)).At(t.col + next, k0);
  const int64_t size = static_cast<int64_t>(SizeOf(p.b.dtype));
  const int64_t most = job.path == Path::kStream ? 2 * job.micro.nr : cols;
  const int64_t width = std::min(t.cols - next, most);
  depth = b.pair_k > 0 ? std::min(2 * depth, b.pair_k) : std::min(depth, p.k - k0);
  if (b.i_stride == 1) return Lines(b.data, b.k_stride * size, depth, width * size);
  if (b.k_stride == 1) return Lines(b.data, b.i_stride * size, width, depth * size);
  return {};
}

// The epilogue on columns [first, last) of a tile, in blocks that fit L1.
void FinishColumns(const Params& p, const Tile& t, int64_t first, int64_t last, float* c, int64_t ldc) {
  for (int64_t row = 0; row < t.rows; row += kBlockRows) {
    FinishBlock(p, t.batch, t.row + row, t.col + first, c + row * ldc + first, ldc,
                std::min(kBlockRows, t.rows - row), last - first, true);
  }
}

// All of the product after tile t where t is one, in place and small enough to be fetched within another.
void SetNextProduct(const Params& p, const Tile& t, BlockArgs& g) {
  const int64_t next = t.batch + 1;
  constexpr int64_t kResident = 64 * 64;
  if (p.k * p.n > kResident || next >= p.batch || t.cols != p.n || t.rows != p.m || p.k * p.m > 2 * kResident)
    return;
  const PackSource a = Rows(p.a, next), b = Columns(p.b, next);
  constexpr int64_t kSize = sizeof(float);
  g.next_a = a.k_stride == 1 ? Lines(a.data, a.i_stride * kSize, p.m, p.k * kSize)
                             : Lines(a.data, a.k_stride * kSize, p.k, p.m * kSize);
  if (p.b.batch_stride != 0) g.next_b = Lines(b.data, b.k_stride * kSize, p.k, p.n * kSize);
  if (!p.c) return;
  g.next_c = p.c + next * p.c_batch_stride;
  g.next_out = Lines(g.next_c, p.c_row_stride * kSize, p.m, p.n * kSize);
}

// The first operand of the epilogue that is as large as C, for rows x cols of it: its rows are too short for
// the hardware's prefetchers.
Lines OperandLines(const Params& p, int64_t batch, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  if (!p.epilogue.program) return {};
  const size_t inputs = static_cast<size_t>(vector::Source(*p.epilogue.program).num_inputs) - 1;
  for (const vector::EpilogueArg& x : p.epilogue.args.first(inputs)) {
    if (x.row_stride == 0 || x.col_stride != 1) continue;
    const int64_t size = static_cast<int64_t>(SizeOf(x.dtype));
    return Lines(x.At(batch, 0, row, col).data, x.row_stride * size, rows, cols * size);
  }
  return {};
}

// Of a C beyond the caches the rows after the first panel: an activation on a tile reads what was stored, and
// would wait for lines that come from memory. Rows of a page and more the hardware's prefetchers follow in
// time; there asking costs 4 % (n = 1024 to 4096), below it saves 20 to 40 % (n = 64 to 768, k = 16 and 32).
Lines RowsAhead(const Params& p, const Tile& t, const BlockArgs& g) {
  constexpr int64_t kSize = sizeof(float), kPage = 4096;
  const int64_t first = g.panels.Height(0);
  const bool waits = g.finish.act != vector::RegAct::kNone && p.n * kSize < kPage;
  if (!waits || p.m * p.n <= p.blocking.direct_floats || first >= t.rows) return {};
  return Lines(g.c + first * g.ldc, g.ldc * kSize, t.rows - first, g.cols * kSize);
}

// All rows of the tile against the columns from j that g describes. Where the program follows at once, a few
// row panels at a time.
void RunColumns(const Params& p, const Tile& t, int64_t j, bool wide, bool program, BlockArgs& g) {
  const int64_t count = g.panels.count, highest = std::max<int64_t>(1, g.panels.Height(0));
  const int64_t rows_at_once = kBlockFloats / g.cols;
  const int64_t panels = program ? std::max<int64_t>(1, rows_at_once / highest) : count;
  for (g.p0 = 0; g.p0 < count; g.p0 = g.p1) {
    g.p1 = std::min(count, g.p0 + panels);
    const int64_t row = g.panels.Start(g.p0), rows = g.panels.Start(g.p1) - row;
    if (program && g.next_a.left == 0) {
      g.next_a = OperandLines(p, t.batch, t.row + row, t.col + j, rows, g.cols);
    }
    const auto block =
        p.bf16_pairs ? (wide ? &PairWideBlock : &PairBlock) : (wide ? &WideBlock : &MacroBlock);
    block(g);
    g.next_a = g.next_b = g.next_out = {};  // fetched once
    if (program)
      FinishBlock(p, t.batch, t.row + row, t.col + j, g.c + row * g.ldc, g.ldc, rows, g.cols, true);
  }
}

// Where one K block of a tile leaves its sums, and what it goes on from.
struct Sums {
  float* to = nullptr;
  int64_t ld = 0;
  const float* from = nullptr;  // null: zero
  int64_t ld_from = 0;
  bool adds = false;  // to what C holds, the sums of earlier spans
};

// Spans after the first are summed up apart. Sums that lead nowhere: there is no memory.
Sums PlaceSums(const Params& p, const Tile& t, int64_t k0, int64_t depth, float* c, int64_t ldc) {
  const int64_t span = SumSpan(p.bf16_pairs);
  const bool begins = k0 % span == 0;
  if (k0 < span) return {c, ldc, begins ? nullptr : c, ldc, false};
  const bool ends = k0 + depth >= p.k || (k0 + depth) % span == 0;
  if (begins && ends) return {c, ldc, nullptr, 0, true};
  float* apart = ThreadScratch(Scratch::kSpan, t.rows * t.cols);
  if (!apart) return {};
  const float* from = begins ? nullptr : apart;
  return ends ? Sums{c, ldc, from, t.cols, true} : Sums{apart, t.cols, from, t.cols, false};
}

// `whole`: the program runs once on all columns of these rows.
void RunRows(const Job& job, const Tile& t, bool whole) {
  const Params& p = *job.p;
  float* c = p.c ? p.c + t.batch * p.c_batch_stride + t.row * p.c_row_stride + t.col : nullptr;
  int64_t ldc = p.c_row_stride;
  if (!c) {
    ldc = RoundUp(t.cols, job.micro.nr);
    c = ThreadScratch(Scratch::kC, t.rows * ldc);
    if (!c) return;
  }
  const bool needs_pass = p.epilogue.program != nullptr;
  // In place, the columns after the last whole vector are computed by a vector that overlaps the one before;
  // that needs sums which start at zero and end in C, with no program between the two.
  const int64_t lanes = job.micro.nr / 2;
  const bool tail_overlaps =
      job.path == Path::kDirect && KDepth(p.k, 0, job.kc) == p.k && (!needs_pass || whole);
  BlockArgs g;
  g.panels = RowPanels(t.rows, job.wide ? WideRows() : job.micro.mr);
  int64_t k0 = 0;
  do {  // once even for k = 0: C is then the epilogue of zeros
    g.depth = KDepth(p.k, k0, job.kc, p.bf16_pairs);
    const bool last = k0 + g.depth >= p.k, passes = last && needs_pass, block_pass = passes && !whole;
    const Sums sums = PlaceSums(p, t, k0, g.depth, c, ldc);
    if (!sums.to || !SetA(job, t, k0, g)) return;
    g.ldc = sums.ld, g.ld_sums = sums.ld_from, g.adds = sums.adds;
    // Panels of B want all rows while they are in L1; the epilogue then finds C in L2. Else it follows at
    // once.
    const bool rows_first = whole || (!job.wide && (job.path == Path::kPanel || job.path == Path::kPacked));
    int64_t finished = 0;
    for (int64_t j = 0; j < t.cols; j += g.cols) {
      g.cols = GroupCols(job, t.rows, t.cols - j, block_pass);
      if (tail_overlaps && j > 0 && g.cols < lanes) {
        g.cols = lanes;
        j = t.cols - lanes;
      }
      if (!SetB(job, t, k0, j, g.cols, g)) return;
      g.c = sums.to + j;
      g.sums = sums.from ? sums.from + j : nullptr;
      g.next = NextLines(job, t, k0, j, g.cols, g.depth);
      g.streams_b = job.path == Path::kStream;
      g.next_c = j + g.cols < t.cols ? g.c + g.cols : sums.to;
      if (block_pass && job.path == Path::kPacked) {
        g.next = OperandLines(p, t.batch, t.row, t.col + j, t.rows, g.cols);
      }
      const bool wide = job.wide && g.cols > 2 * job.micro.nr - lanes;
      if (job.path == Path::kDirect && g.cols == p.n && last && k0 == 0) SetNextProduct(p, t, g);
      if (last) g.finish = TilePart(p.epilogue, t.col + j);
      if (wide && last && !needs_pass && g.next_out.left == 0) g.next_out = RowsAhead(p, t, g);
      if (passes && whole && j == 0) g.next_a = OperandLines(p, t.batch, t.row, t.col, t.rows, t.cols);
      RunColumns(p, t, j, wide, block_pass && !rows_first, g);
      const int64_t end = j + g.cols;
      if (passes && rows_first && (end == t.cols || (!whole && end - finished >= kBlockCols))) {
        FinishColumns(p, t, finished, end, c, ldc);
        finished = end;
      }
    }
    k0 += g.depth;
  } while (k0 < p.k);
}

// Where columns are left over behind the widest groups, each group of a few columns would run the program in
// short rows, at some 100 cycles a row beside its elements: blocks of whole rows then wait for all groups (a
// fifth of the time of 200x300x64 and 1000x100x100 with an addend and relu).
bool PassesWholeRows(const Job& job, const Tile& t) {
  const int64_t group = job.wide ? 2 * job.micro.nr : job.micro.nr / 2;
  return job.p->epilogue.program && job.path == Path::kDirect && t.cols % group != 0;
}

void RunTile(const Job& job, const Tile& t) {
  if (!PassesWholeRows(job, t)) return RunRows(job, t, false);
  Tile part = t;
  for (int64_t row = 0; row < t.rows; row += kBlockRows) {
    part.row = t.row + row, part.rows = std::min(kBlockRows, t.rows - row);
    RunRows(job, part, true);
  }
}

// Products without gaps of which two fit L2 many times over, and whose tiles take all columns.
bool AreSmall(const Params& p) {
  constexpr int64_t kMostOperand = 8 * 1024, kMostC = 16 * 1024;
  if (p.batch < 2 || !p.c || p.epilogue.program || p.k == 0) return false;
  if (p.m * p.k > kMostOperand || p.k * p.n > kMostOperand || p.m * p.n > kMostC) return false;
  return p.a.dtype == DType::kF32 && p.a.col_stride == 1 && p.a.row_stride == p.k && p.b.col_stride == 1 &&
         p.b.row_stride == p.n && p.c_row_stride == p.n && HasSmallBatch(p.n);
}

void RunSmall(const Params& p, int64_t first, int64_t last) {
  SmallBatch s;
  s.m = p.m, s.n = p.n, s.k = p.k, s.count = last - first;
  s.a_step = p.a.batch_stride, s.b_step = p.b.batch_stride, s.c_step = p.c_batch_stride;
  s.a = static_cast<const float*>(p.a.data) + first * s.a_step;
  s.b = static_cast<const float*>(p.b.data) + first * s.b_step;
  s.c = p.c + first * s.c_step;
  s.continues = last < p.batch;
  s.finish = TilePart(p.epilogue, 0);
  RunSmallBatch(s);
}

// The grid of tiles over rows x cols x batch. Tiles follow the blocking; with several threads they are made
// smaller until each thread has a few. The cut changes no result.
struct Grid {
  int64_t tm = 0, tn = 0, rows = 0, cols = 0;
  int64_t nm = 0, nn = 0;
  Tile At(int64_t index, int64_t batch) const {
    Tile t;
    t.batch = batch;
    t.row = index / nn * tm, t.rows = std::min(tm, rows - t.row);
    t.col = index % nn * tn, t.cols = std::min(tn, cols - t.col);
    return t;
  }
};

// What a cut costs, as a share of the products' time. Packing a panel takes about three quarters of the time
// of one tile that reads it, fetching one that lies ready a quarter: every row of tiles does that to B again,
// every column of tiles to A.
double CutCost(const Job& job, int64_t nm, int64_t nn, int64_t batch, int64_t threads) {
  constexpr double kPackShare = 0.75, kFetchShare = 0.25;
  // The threads do not run at the same speed: the last task of a few makes the others wait.
  constexpr double kUneven = 0.1;
  const Params& p = *job.p;
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n);
  const double rows = static_cast<double>(nm), cols = static_cast<double>(nn);
  const double per_thread = rows * cols * static_cast<double>(batch) / static_cast<double>(threads);
  const double a_cost = (ReadsAInPlace(job) ? kFetchShare : kPackShare) * job.micro.nr / n * cols;
  const double b_cost = (job.path == Path::kPanel ? kPackShare : kFetchShare) * job.micro.mr / m * rows;
  return a_cost + b_cost + std::ceil(per_thread) / per_thread - 1 + kUneven / per_thread;
}

constexpr int64_t kTasksPerThread = 4, kProductsPerTask = 16;

Grid MakeGrid(const Job& job, int64_t batch, int threads) {
  const Params& p = *job.p;
  const int64_t mr = job.micro.mr, nr = job.micro.nr;
  Grid g;
  g.rows = p.m, g.cols = p.n;
  const bool panels = job.path == Path::kPanel || (job.path == Path::kPacked && !job.wide);
  int64_t rows = job.path == Path::kDirect ? std::max(DirectRows(p), kMinDirectRows) : p.blocking.mc;
  // A program follows when all rows have passed some panels: what they left must still be in L2 (on a Zen 4
  // the program waits 50 cycles for a line that is not).
  if (panels && p.epilogue.program)
    rows = std::min(rows, std::max(kBlockRows, p.blocking.direct_floats / (4 * kBlockCols)));
  // Sums of several spans are kept apart (PlaceSums): tiles are then cut so that these stay in L2.
  constexpr int64_t kMaxSpanCols = 4096;
  const int64_t widest = !p.c ? kMaxScratchCols : p.k > SumSpan(p.bf16_pairs) ? kMaxSpanCols : p.n;
  const int64_t least_m = CeilDiv(p.m, rows), least_n = CeilDiv(p.n, widest);
  g.nm = least_m, g.nn = least_n;
  const int64_t work = p.m * p.n * std::max<int64_t>(p.k, 1);
  if (threads > 1 && least_m * least_n * batch < kTasksPerThread * threads) {
    double least = CutCost(job, g.nm, g.nn, batch, threads);
    const int64_t most_m = std::max(least_m, std::min(p.m / mr, kTasksPerThread * threads));
    const int64_t most_n = std::max(least_n, std::min(p.n / nr, kTasksPerThread * threads));
    for (int64_t nm = least_m; nm <= most_m; nm += CeilDiv(nm, 2)) {
      for (int64_t nn = least_n; nn <= most_n; nn += CeilDiv(nn, 2)) {
        if (nm * nn > least_m * least_n && work / (nm * nn) < kTaskWork) break;
        const double cost = CutCost(job, nm, nn, batch, threads);
        if (cost < least) least = cost, g.nm = nm, g.nn = nn;
      }
    }
  }
  // As many rows of tiles for each thread.
  if (threads > 1 && g.nm > 1 && g.nm < p.m / mr && g.nn * batch % threads != 0)
    g.nm = RoundUp(g.nm, threads);
  g.tm = CeilDiv(p.m, g.nm);
  g.tn = RoundUp(CeilDiv(p.n, g.nn), nr);
  g.nm = CeilDiv(p.m, g.tm), g.nn = CeilDiv(p.n, g.tn);
  return g;
}

// All batches and tiles are one set of tasks; small ones go in groups.
void RunTiles(const Job& job, int64_t first_batch, int64_t batches) {
  const Params& p = *job.p;
  const int64_t work = p.m * p.n * std::max<int64_t>(p.k, 1);
  const int threads = ThreadsFor(work * batches);
  const Grid grid = MakeGrid(job, batches, threads);
  const int64_t tiles = grid.nm * grid.nn, total = tiles * batches;
  // Products of a batch bring their successors along (SetNextProduct), which ends with the group.
  const int64_t run = std::min(kProductsPerTask, total / (kTasksPerThread * threads));
  const int64_t by_work = kTaskWork / std::max<int64_t>(1, work / tiles);
  const int64_t group = std::clamp<int64_t>(std::max(by_work, tiles == 1 ? run : 1), 1, total);
  const bool small = job.path == Path::kDirect && tiles == 1 && KDepth(p.k, 0, job.kc) == p.k && AreSmall(p);
  ForEach(CeilDiv(total, group), threads, [&](int64_t task) {
    if (small) return RunSmall(p, task * group, std::min(total, (task + 1) * group));
    for (int64_t i = task * group; i < std::min(total, (task + 1) * group); ++i) {
      RunTile(job, grid.At(i % tiles, first_batch + i / tiles));
    }
  });
}

void RunAhead(Job& job) {
  const Params& p = *job.p;
  const PackedB& b = *p.packed_b;
  assert(b.k == (p.bf16_pairs ? job.pair_k : p.k) && b.n == p.n && b.tier == isa::ActiveTier());
  assert(b.bf16_pairs == p.bf16_pairs);
  job.packed_width = RoundUp(p.n, job.micro.nr);
  const int64_t batches = b.batch == 1 ? p.batch : 1;  // that share one B
  for (int64_t i = 0; i < p.batch; i += batches) {
    job.packed = b.data.as<float>() + (b.batch == 1 ? 0 : i) * p.k * job.packed_width;
    RunTiles(job, i, batches);
  }
}

bool CanGemv(const Params& p) {
  if (p.packed_b || p.k == 0) return false;
  if (HasFewRows(p)) return p.nz_b || p.b.row_stride == 1 || p.b.col_stride == 1;
  const DType b = p.nz_b ? p.nz_b->dtype : p.b.dtype;
  const bool f32 = p.a.dtype == DType::kF32 && b == DType::kF32;
  return f32 && p.n <= kMaxGemvRows && p.a.col_stride == 1;
}

bool CanDirect(const Params& p) {
  return !p.packed_b && !p.nz_b && p.b.dtype == DType::kF32 && p.b.col_stride == 1;
}

// In place, a tile of rows must leave room for B in the core's own caches; and the rows of A that a tile
// reads side by side must not fall into the same few sets of L1 (strides of a multiple of half its 4 KiB
// ways).
bool DirectPays(const Params& p) {
  if (!IsUnitF32(p.a) || DirectRows(p) < std::min<int64_t>(p.m, kMinDirectRows)) return false;
  return p.a.col_stride != 1 || p.m == 1 || p.k < 2 || p.a.row_stride * 4 % 2048 != 0;
}

}  // namespace

const char* Name(Path path) {
  static constexpr const char* kNames[] = {"auto", "gemv", "direct", "stream", "panel", "packed"};
  return kNames[static_cast<int>(path)];
}

Path ChoosePath(const Params& p) {
  if (p.packed_b) return Path::kPacked;
  if (p.path == Path::kPanel || (p.path == Path::kStream && CanDirect(p)) ||
      (p.path == Path::kGemv && CanGemv(p)) || (p.path == Path::kDirect && CanDirect(p))) {
    return p.path;
  }
  if (CanGemv(p) && !(p.m >= LeastStreamRows() && CanDirect(p) && StreamPays(p))) return Path::kGemv;
  if (CanDirect(p) && DirectPays(p)) return Path::kDirect;
  if (CanDirect(p) && StreamPays(p)) return Path::kStream;
  return Path::kPanel;
}

bool PackingPays(const Params& p) {
  const Path path = ChoosePath(p);
  // Against rows in place panels gain 2 to 9 % up to 16 rows, which is not worth twice the memory, and 10 to
  // 45 % beyond.
  constexpr int64_t kFewRows = 16;
  return path == Path::kPanel || (path == Path::kStream && p.m > kFewRows) ||
         (path == Path::kDirect && (p.batch == 1 || p.b.batch_stride == 0));
}

void Run(const Params& given) {
  if (given.m == 0 || given.n == 0 || given.batch == 0) return;
  assert(given.c || given.epilogue.program);
  Params p = given;
  if (!p.c) SumInOutput(p);
  Job job;
  job.p = &p;
  job.path = ChoosePath(p);
  if (p.bf16_pairs && job.path != Path::kGemv) {
    job.pair_k = p.k;
    p.a = AsWords(p.a, p.k, p.a.col_stride, p.a.row_stride, p.batch);
    if (!p.nz_b && !p.packed_b) p.b = AsWords(p.b, p.k, p.b.row_stride, p.b.col_stride, p.batch);
    p.k = CeilDiv(p.k, 2);
  }
  job.micro = TileFor(isa::ActiveTier());
  job.kc = job.path == Path::kStream ? StreamDepth() : p.packed_b ? p.packed_b->kc : p.blocking.kc;
  job.wide = WideRows() > 0 && (job.path == Path::kDirect || job.path == Path::kPacked) &&
             p.n >= 2 * job.micro.nr && KDepth(p.k, 0, job.kc, p.bf16_pairs) * p.n <= kWideFloats;
  if (job.path == Path::kGemv) {
    RunGemv(p);
  } else if (p.packed_b) {
    RunAhead(job);
  } else {
    RunTiles(job, 0, p.batch);
  }
}

}  // namespace opsnn::gemm
