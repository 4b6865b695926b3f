// The driver of 8-bit products: cutting, packing, zero points, threads.
#include "kernels/gemm/int8.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/parallel.h"
#include "kernels/gemm/int8_internal.h"
#include "kernels/gemm/internal.h"

namespace opsnn::gemm {
namespace {

// Rows of A that are handled together: at most half a MiB of them, which leaves room for C in L2.
constexpr int64_t kMostBlockRows = 36 * kInt8Rows, kLeastBlockRows = 8 * kInt8Rows, kBlockBytes = 512 * 1024;
int64_t BlockRows(int64_t depth) {
  return std::clamp(kBlockBytes / std::max<int64_t>(1, depth) / kInt8Rows * kInt8Rows, kLeastBlockRows,
                    kMostBlockRows);
}
// The depth of a panel of B, whole strips of FRACTAL_NZ. At most 48 KiB, mostly from L1: C is read and
// written once per slice of K, and with few slices that traffic hides behind the products.
constexpr int64_t kMostDepth = 1536, kStrip = 32;
int64_t SliceDepth(int64_t k) { return k <= kMostDepth ? k : RoundUp(KStep(k, kMostDepth), kStrip); }
// Columns narrower than this per task would read A more often than it is worth, fewer rows B; where a thread
// would have nothing to do otherwise, it may be these.
constexpr int64_t kMinTaskCols = 4 * kInt8Cols, kFewestCols = 2 * kInt8Cols, kFewestRows = 2 * kInt8Rows;
// Without a C of its own a block is summed up in scratch, at most so wide that it stays in L2.
constexpr int64_t kMostScratchCols = 512;
// A is read in place against B up to this wide: wider ones repay a copy whose rows lie side by side.
constexpr int64_t kInPlaceCols = 512;
// Packed panels up to this size together stay in L2 while rows of A pass: C is then written in long runs.
constexpr int64_t kResidentBytes = 128 * 1024;

struct Job {
  const Int8Params* p = nullptr;
  Int8TileFn tile = nullptr, dots = nullptr;  // dots: null where there are none or rows are packed
  bool a_signed = false, a_in_place = false;
  uint8_t b_flip = 0;     // 0x80 where B has A's sign
  uint32_t b_shift = 0;   // what flipping adds to B
  bool one_term = false;  // the zero points make one term per row and one per column
  bool finishes = false;  // what follows runs tile by tile
  BoundInt8Chain chain;   // where p has one
};

// Bytes (i, k) at data + i * i_stride + k * k_stride; what is packed of them is flipped.
struct ByteSource {
  const uint8_t* data = nullptr;
  int64_t i_stride = 0, k_stride = 0;
  uint8_t flip = 0;
  uint8_t At(int64_t i, int64_t k) const {
    return static_cast<uint8_t>(data[i * i_stride + k * k_stride] ^ flip);
  }
};

ByteSource RowsOfA(const Job& job, int64_t batch, int64_t row, int64_t k) {
  const Operand& a = job.p->a;
  const auto* data = static_cast<const uint8_t*>(a.data);
  return {data + batch * a.batch_stride + row * a.row_stride + k * a.col_stride, a.row_stride, a.col_stride,
          0};
}
ByteSource ColumnsOfB(const Operand& b, uint8_t flip, int64_t batch, int64_t col, int64_t k) {
  const auto* data = static_cast<const uint8_t*>(b.data);
  return {data + batch * b.batch_stride + col * b.col_stride + k * b.row_stride, b.col_stride, b.row_stride,
          flip};
}

// Groups of four bytes side by side move as floats do.
bool MovesAsFloats(const ByteSource& s, int64_t depth) {
  return s.k_stride == 1 && s.i_stride % kInt8Group == 0 && depth % kInt8Group == 0;
}

// The last columns of rows: moved to where whole panels can be read.
void PackFewColumns(const ByteSource& s, int64_t width, int64_t groups, uint8_t* dst) {
  constexpr int64_t kGroups = 16;
  uint8_t rows[kGroups * kInt8Group * kInt8Cols] = {};
  for (int64_t g = 0; g < groups; g += kGroups) {
    const int64_t count = std::min(kGroups, groups - g);
    const uint8_t* from = s.data + g * kInt8Group * s.k_stride;
    for (int64_t k = 0; k < count * kInt8Group; ++k)
      std::memcpy(rows + k * kInt8Cols, from + k * s.k_stride, static_cast<size_t>(width));
    PackInt8Rows(rows, kInt8Cols, count, s.flip, dst + g * kInt8Cols * kInt8Group);
  }
}

// dst[group][i][4], `ld` wide; zero beyond depth, which adds nothing to products and sums. What lies between
// width and ld meets no column of C.
void PackGroups(const ByteSource& s, int64_t width, int64_t depth, int64_t ld, uint8_t* dst) {
  const int64_t whole = depth / kInt8Group, groups = CeilDiv(depth, kInt8Group);
  int64_t first = 0;  // group that is not packed yet
  if (s.i_stride == 1 && width == kInt8Cols && ld == kInt8Cols) {
    PackInt8Rows(s.data, s.k_stride, whole, s.flip, dst);
    first = whole;
  } else if (s.i_stride == 1 && ld == kInt8Cols && width > 1) {
    PackFewColumns(s, width, whole, dst);
    first = whole;
  } else if (MovesAsFloats(s, depth)) {
    PackPanel({s.data, DType::kF32, s.i_stride / kInt8Group, 1}, width, whole, reinterpret_cast<float*>(dst),
              ld);
    for (int64_t i = 0; s.flip != 0 && i < groups * ld * kInt8Group; ++i) dst[i] ^= s.flip;
    first = whole;
  }
  for (int64_t g = first; g < groups; ++g) {
    for (int64_t i = 0; i < ld; ++i) {
      for (int64_t u = 0; u < kInt8Group; ++u) {
        const int64_t k = g * kInt8Group + u;
        dst[(g * ld + i) * kInt8Group + u] = i < width && k < depth ? s.At(i, k) : uint8_t{0};
      }
    }
  }
}

// Sums of packed columns: a tile with a row of ones, which are the same in either sign.
void ColumnSums(Int8TileFn tile, bool a_signed, const uint8_t* panel, int64_t groups, bool accumulate,
                int32_t* sums) {
  static constexpr uint8_t kOnes[kInt8Group] = {1, 1, 1, 1};
  Int8Tile t;
  t.rows = 1, t.cols = kInt8Cols, t.groups = groups;
  t.a = kOnes;
  t.b = panel;
  t.a_signed = a_signed;
  t.c = sums, t.ldc = kInt8Cols;
  t.accumulate = accumulate;
  tile(t);
}

void RowSums(const ByteSource& a, int64_t rows, int64_t k, bool is_signed, int32_t* sums) {
  if (a.k_stride == 1) {
    const Int8SumsFn vnni = isa::HasVnni() ? Int8SumsVnni() : nullptr;
    return (vnni ? vnni : &SumInt8Rows)(a.data, a.i_stride, rows, k, is_signed, sums);
  }
  for (int64_t i = 0; i < rows; ++i) {
    uint32_t sum = 0;
    for (int64_t u = 0; u < k; ++u) {
      const uint8_t x = a.At(i, u);
      sum += is_signed ? static_cast<uint32_t>(static_cast<int8_t>(x)) : x;
    }
    sums[i] = static_cast<int32_t>(sum);
  }
}

struct Block : CBlock {
  int32_t* c = nullptr;  // its first element
  int64_t ldc = 0;
};

// What a block keeps beside its operands. Terms are empty where zero points make none.
struct Corrections {
  int32_t* row_terms = nullptr;    // rows
  int32_t* column_sums = nullptr;  // of the columns in hand, padded to whole panels; then their terms
  bool rows = false, columns = false;
};

// sum (a - za)(b - zb) = sum ab - zb (sum a - k za) - za sum b, b and zb as packed.
Corrections Prepare(const Job& job, const Block& t, int32_t* memory) {
  const Int8Params& p = *job.p;
  Corrections c;
  c.row_terms = memory;
  c.column_sums = memory + t.rows;
  const uint32_t zb = static_cast<uint32_t>(p.b_zero.At(0)) + job.b_shift;
  c.rows = !job.one_term || zb != 0;
  c.columns = !job.one_term || p.a_zero.At(0) != 0;
  if (!c.rows) return c;
  RowSums(RowsOfA(job, t.batch, t.row, 0), t.rows, p.k, job.a_signed, c.row_terms);
  const auto k = static_cast<uint32_t>(p.k), factor = job.one_term ? 0 - zb : 1;
  const int64_t step = p.a_zero.data ? p.a_zero.stride : 0;
  const int32_t zero = 0, *za = p.a_zero.data ? p.a_zero.data + t.row * step : &zero;
  const auto make = [&](int64_t stride) {
    for (int64_t i = 0; i < t.rows; ++i) {
      const uint32_t part = static_cast<uint32_t>(c.row_terms[i]) - k * static_cast<uint32_t>(za[i * stride]);
      c.row_terms[i] = static_cast<int32_t>(factor * part);
    }
  };
  step == 0 ? make(0) : make(1);
  return c;
}

// Zero points per row of A or column of B: a pass of its own.
void Correct(const Job& job, const Block& t, const Corrections& x) {
  const Int8Params& p = *job.p;
  for (int64_t i = 0; i < t.rows; ++i) {
    const auto za = static_cast<uint32_t>(p.a_zero.At(t.row + i)),
               part = static_cast<uint32_t>(x.row_terms[i]);
    int32_t* c = t.c + i * t.ldc;
    for (int64_t j = 0; j < t.cols; ++j) {
      const uint32_t zb = static_cast<uint32_t>(p.b_zero.At(t.col + j)) + job.b_shift;
      const auto sum = static_cast<uint32_t>(x.column_sums[j]);
      c[j] = static_cast<int32_t>(static_cast<uint32_t>(c[j]) - zb * part - za * sum);
    }
  }
}

const uint8_t* PackedPanel(const PackedInt8B& b, int64_t batch, int64_t k0, int64_t groups, int64_t col) {
  const int64_t which = b.batch == 1 ? 0 : batch;
  return b.data.as<uint8_t>() + (which * RoundUp(b.k, kInt8Group) + k0) * RoundUp(b.n, kInt8Cols) +
         col * groups * kInt8Group;
}

// The panel of columns [col, col + cols) at depth k0: as packed ahead, or into `scratch`. Its column sums are
// those of all of k once the last depth is reached.
const uint8_t* Panel(const Job& job, const Block& t, const Corrections& x, int64_t k0, int64_t depth,
                     int64_t col, int64_t cols, uint8_t* scratch) {
  const Int8Params& p = *job.p;
  const int64_t groups = CeilDiv(depth, kInt8Group);
  int32_t* sums = x.column_sums + (col - t.col);
  if (const PackedInt8B* b = p.packed_b) {
    const int64_t padded = RoundUp(p.n, kInt8Cols), which = b->batch == 1 ? 0 : t.batch;
    if (x.columns) std::copy_n(b->column_sums.data() + which * padded + col, kInt8Cols, sums);
    return PackedPanel(*b, t.batch, k0, groups, col);
  }
  if (p.pack_b) {
    (*p.pack_b)(col, cols, k0, depth, job.b_flip, scratch);
  } else {
    PackGroups(ColumnsOfB(p.b, job.b_flip, t.batch, col, k0), cols, depth, kInt8Cols, scratch);
  }
  if (x.columns) ColumnSums(job.tile, job.a_signed, scratch, groups, k0 > 0, sums);
  return scratch;
}

// The rows of A at depth k0, packed or where they lie.
void SetA(const Job& job, const Block& t, const RowPanels& panels, int64_t k0, int64_t depth,
          uint8_t* scratch) {
  const int64_t groups = CeilDiv(depth, kInt8Group);
  for (int64_t i = 0; i < panels.count; ++i) {
    const int64_t row = panels.Start(i), height = panels.Height(i);
    PackGroups(RowsOfA(job, t.batch, t.row + row, k0), height, depth, height,
               scratch + row * groups * kInt8Group);
  }
}

// One depth of a block.
struct Slice {
  int64_t k0 = 0, depth = 0, groups = 0;
  bool last = false;
  const uint8_t* a = nullptr;  // packed rows; null: where they lie
  // Of the panel in hand.
  int64_t lone = 0;
  const uint8_t* columns = nullptr;
};

// Turns the column sums of a panel into the terms of its columns, once they are those of all of k.
void MakeColumnTerms(const Int8Params& p, const Corrections& x, int64_t j) {
  const auto za = static_cast<uint32_t>(p.a_zero.At(0));
  for (int64_t i = 0; i < kInt8Cols; ++i) {
    x.column_sums[j + i] = static_cast<int32_t>(0 - za * static_cast<uint32_t>(x.column_sums[j + i]));
  }
}

// What follows the product and is known to this module, on whole sums.
void Finish(const Job& job, const SumsBlock& at) {
  if (!job.p->requantise) return job.chain.Run(at);
  RequantiseBlock(*job.p->requantise, at.c, at.ldc, at.batch, at.row, at.rows, at.col, at.cols);
}

// Columns of a panel that vectors would be nearly empty for are summed one by one, a row's bytes side by
// side: 14 rows of a column take about 1.2 loads for 64 bytes each and 50 for adding up lanes; a vector of
// columns takes an instruction for 4. Returns how many of `cols`.
int64_t LoneColumns(const Job& job, int64_t cols, int64_t groups) {
  constexpr int64_t kVector = kInt8Cols / 2;
  const int64_t lone = cols % kVector;
  return job.dots && lone * (groups / 12 + 4) < groups ? lone : 0;
}

// The last `lone` columns of a panel of `cols`, each with its bytes side by side.
void SplitPanel(const uint8_t* panel, int64_t cols, int64_t lone, int64_t groups, uint8_t* to) {
  for (int64_t j = cols - lone; j < cols; ++j)
    for (int64_t g = 0; g < groups; ++g, to += kInt8Group)
      std::memcpy(to, panel + (g * kInt8Cols + j) * kInt8Group, kInt8Group);
}

// The tile and then its lone columns, which lie at `columns`.
void RunTile(const Job& job, Int8Tile tile, int64_t lone, const uint8_t* columns) {
  const int64_t whole = tile.cols - lone;
  if (whole > 0) {
    tile.cols = whole;
    job.tile(tile);
  }
  tile.c += whole;
  if (tile.col_terms) tile.col_terms += whole;
  for (int64_t j = 0; j < lone; ++j) {
    tile.b = columns + j * tile.groups * kInt8Group;
    job.dots(tile);
    ++tile.c;
    if (tile.col_terms) ++tile.col_terms;
  }
}

// Row panel i against the panel of columns j, which the tile names already.
void RunRows(const Job& job, const Block& t, const Corrections& x, const RowPanels& panels, const Slice& s,
             int64_t j, int64_t i, Int8Tile& tile) {
  const Int8Params& p = *job.p;
  const int64_t row = panels.Start(i);
  tile.rows = panels.Height(i);
  tile.cols = std::min(kInt8Cols, t.cols - j);
  tile.a = s.a ? s.a + row * s.groups * kInt8Group : RowsOfA(job, t.batch, t.row + row, s.k0).data;
  tile.a_row = s.a ? kInt8Group : p.a.row_stride;
  tile.a_group = s.a ? tile.rows * kInt8Group : kInt8Group;
  const bool terms = s.last && job.one_term;
  tile.row_terms = terms && x.rows ? x.row_terms + row : nullptr;
  tile.col_terms = terms && x.columns ? x.column_sums + j : nullptr;
  alignas(64) int32_t sums[kInt8Rows * kInt8Cols];
  tile.c = t.c ? t.c + row * t.ldc + j : sums;
  const SumsBlock at{tile.c, tile.ldc, t.batch, t.row + row, tile.rows, t.col + j, tile.cols};
  const bool finishes = s.last && job.finishes;
  constexpr int64_t kLongTile = 16;  // groups: shorter ones are over before it arrives
  if (finishes && p.chain && s.groups >= kLongTile) job.chain.Fetch(at);
  if (s.lone == 0) {
    job.tile(tile);
  } else {
    RunTile(job, tile, s.lone, s.columns);
  }
  if (finishes) Finish(job, at);
}

void RunSlice(const Job& job, const Block& t, const Corrections& x, const RowPanels& panels, Slice s,
              uint8_t* scratch) {
  const Int8Params& p = *job.p;
  Int8Tile tile;
  tile.groups = s.groups;
  tile.a_signed = job.a_signed;
  tile.ldc = t.ldc;
  tile.accumulate = s.k0 > 0;
  const bool rows_outside = p.packed_b && RoundUp(t.cols, kInt8Cols) * s.depth <= kResidentBytes;
  for (int64_t j = 0; j < t.cols; j += kInt8Cols) {
    tile.b = Panel(job, t, x, s.k0, s.depth, t.col + j, std::min(kInt8Cols, t.cols - j), scratch);
    if (s.last && job.one_term && x.columns) MakeColumnTerms(p, x, j);
    if (rows_outside) continue;
    const int64_t cols = std::min(kInt8Cols, t.cols - j);
    s.lone = scratch ? LoneColumns(job, cols, s.groups) : 0;
    if (s.lone) {
      uint8_t* columns = scratch + kInt8Cols * s.groups * kInt8Group;
      SplitPanel(tile.b, cols, s.lone, s.groups, columns);
      s.columns = columns;
    }
    for (int64_t i = 0; i < panels.count; ++i) RunRows(job, t, x, panels, s, j, i, tile);
  }
  s.lone = 0;
  for (int64_t i = 0; rows_outside && i < panels.count; ++i) {
    for (int64_t j = 0; j < t.cols; j += kInt8Cols) {
      tile.b = PackedPanel(*p.packed_b, t.batch, s.k0, s.groups, t.col + j);
      RunRows(job, t, x, panels, s, j, i, tile);
    }
  }
  if (s.last && !job.one_term) Correct(job, t, x);
}

// Where the sums of a block lie: nowhere where tiles finish them. False where there is no memory.
bool PlaceSums(const Job& job, Block& t) {
  const Int8Params& p = *job.p;
  if (p.c) {
    t.c = p.c + t.batch * p.c_batch_stride + t.row * p.c_row_stride + t.col, t.ldc = p.c_row_stride;
    return true;
  }
  t.ldc = kInt8Cols;
  if (job.finishes && p.k <= kMostDepth) return true;
  t.ldc = t.cols;
  t.c = reinterpret_cast<int32_t*>(ThreadScratch(Scratch::kSpan, t.rows * t.cols));
  return t.c != nullptr;
}

void RunBlock(const Job& job, Block t) {
  const Int8Params& p = *job.p;
  if (!PlaceSums(job, t)) return;
  const RowPanels panels(t.rows, kInt8Rows);
  uint8_t* a = nullptr;
  const int64_t depth = SliceDepth(p.k), padded_depth = RoundUp(std::max<int64_t>(depth, 1), kInt8Group);
  if (!job.a_in_place) a = reinterpret_cast<uint8_t*>(ThreadScratch(Scratch::kA, t.rows * padded_depth / 4));
  uint8_t* b = nullptr;
  // A panel, and behind it up to half of its columns once more (SplitPanel).
  if (!p.packed_b)
    b = reinterpret_cast<uint8_t*>(
        ThreadScratch(Scratch::kB, (kInt8Cols + kInt8Cols / 2) * padded_depth / 4));
  auto* memory = reinterpret_cast<int32_t*>(ThreadScratch(Scratch::kC, t.rows + RoundUp(t.cols, kInt8Cols)));
  if ((!a && !job.a_in_place) || (!b && !p.packed_b) || !memory) return;
  const Corrections x = Prepare(job, t, memory);
  Slice s;
  do {  // once even for k = 0: C is then zero
    s.depth = std::min(depth, p.k - s.k0), s.groups = CeilDiv(s.depth, kInt8Group);
    s.last = s.k0 + s.depth >= p.k;
    s.a = a;
    if (a) SetA(job, t, panels, s.k0, s.depth, a);
    RunSlice(job, t, x, panels, s, b);
    s.k0 += s.depth;
  } while (s.k0 < p.k);
  if (job.finishes) return;
  if (p.requantise || p.chain) return Finish(job, {t.c, t.ldc, t.batch, t.row, t.rows, t.col, t.cols});
  if (p.program) RunProgramByRows(*p.program, p.args, {t.c, DType::kS32, t.ldc, 1}, t);
}

// Rows that a tile reads side by side must not fall into one set of L1: no stride of its 4 KiB ways.
bool ReadsAInPlace(const Int8Params& p) {
  if (p.a.col_stride != 1 || p.k % kInt8Group != 0) return false;
  return p.m <= kMaxGemvRows || (p.n <= kInPlaceCols && p.a.row_stride % 4096 != 0);
}

// How C is cut into tasks of rows x cols.
struct Cut {
  int64_t rows = 0, cols = 0, nm = 0, nn = 0;
  Cut(const Int8Params& p, int64_t threads) {
    nm = CeilDiv(p.m, BlockRows(SliceDepth(p.k)));
    // Panels packed ahead cost a row block nothing but their fetching, so rows are cut before columns.
    if (threads > 1 && p.packed_b) {
      nm = std::max(nm, std::min(CeilDiv(4 * threads, p.batch), p.m / kLeastBlockRows));
      if (nm > 1) nm = RoundUp(nm, threads);  // as many for each
    }
    int64_t most_n = std::max<int64_t>(1, p.n / kMinTaskCols);
    const int64_t missing = CeilDiv(threads, nm * most_n * p.batch);  // times as many tasks
    if (missing > 1) {
      const int64_t more = std::clamp<int64_t>(p.m / nm / kFewestRows, 1, missing);
      nm *= more;
      if (more < missing) most_n = std::max<int64_t>(1, p.n / kFewestCols);
    }
    const int64_t by_threads = threads == 1 ? 1 : CeilDiv(2 * threads, nm * p.batch);
    const int64_t by_scratch = p.c ? 1 : CeilDiv(p.n, kMostScratchCols);
    nn = std::clamp<int64_t>(std::max(by_threads, by_scratch), 1, most_n);
    rows = CeilDiv(p.m, nm), cols = RoundUp(CeilDiv(p.n, nn), kInt8Cols);
    nm = CeilDiv(p.m, rows), nn = CeilDiv(p.n, cols);
  }
};

// One block of a panel: rows [k0, k0 + depth) of columns [col, col + width).
struct PanelBlock {
  int64_t which = 0, col = 0, width = 0, k0 = 0, depth = 0;
};

Int8TileFn ChooseTile() { return isa::HasVnni() ? Int8TileVnni() : Int8TileForTier(); }

// Packs each block by `pack` and sums up the columns. Null when there is no memory.
std::shared_ptr<const PackedInt8B> PackInt8Panels(DType a_dtype, int64_t k, int64_t n, int64_t batch,
                                                  FunctionRef<void(const PanelBlock&, uint8_t*)> pack) {
  auto packed = std::make_shared<PackedInt8B>();
  packed->k = k, packed->n = n, packed->batch = batch;
  packed->a_signed = a_dtype == DType::kS8;
  const int64_t padded = RoundUp(n, kInt8Cols), bytes = batch * RoundUp(k, kInt8Group) * padded;
  packed->data = AlignedBuffer(static_cast<size_t>(std::max<int64_t>(1, bytes)));
  if (!packed->data) return nullptr;
  packed->column_sums.assign(static_cast<size_t>(batch * padded), 0);
  const Int8TileFn tile = ChooseTile();
  const int64_t panels = padded / kInt8Cols, depth = SliceDepth(k);
  ParallelFor(batch * panels, [&](int64_t i, int) {
    PanelBlock t;
    t.which = i / panels, t.col = i % panels * kInt8Cols, t.width = std::min(kInt8Cols, n - t.col);
    for (; t.k0 < k; t.k0 += depth) {
      t.depth = std::min(depth, k - t.k0);
      const int64_t groups = CeilDiv(t.depth, kInt8Group);
      uint8_t* dst = packed->data.as<uint8_t>() + (t.which * RoundUp(k, kInt8Group) + t.k0) * padded +
                     t.col * groups * kInt8Group;
      pack(t, dst);
      ColumnSums(tile, packed->a_signed, dst, groups, t.k0 > 0,
                 packed->column_sums.data() + t.which * padded + t.col);
    }
  });
  return packed;
}

}  // namespace

std::shared_ptr<const PackedInt8B> PackInt8B(const Operand& b, DType a_dtype, int64_t k, int64_t n,
                                             int64_t batch) {
  const uint8_t flip = a_dtype == b.dtype ? 0x80 : 0;
  return PackInt8Panels(a_dtype, k, n, batch, [&](const PanelBlock& t, uint8_t* dst) {
    PackGroups(ColumnsOfB(b, flip, t.which, t.col, t.k0), t.width, t.depth, kInt8Cols, dst);
  });
}

std::shared_ptr<const PackedInt8B> PackNzInt8B(const NzOperand& b, DType a_dtype, int64_t k, int64_t n,
                                               int64_t batch) {
  const uint8_t flip = a_dtype == b.dtype ? 0x80 : 0;
  const int64_t rows = RoundUp(b.transposed ? n : k, 16);
  return PackInt8Panels(a_dtype, k, n, batch, [&](const PanelBlock& t, uint8_t* dst) {
    const uint8_t* matrix = static_cast<const uint8_t*>(b.data) + t.which * b.batch_stride;
    static_assert(kStrip == kInt8Cols);
    if (!b.transposed) {
      PackGroups({matrix + (t.col / kStrip * rows + t.k0) * kStrip, 1, kStrip, flip}, t.width, t.depth,
                 kInt8Cols, dst);
      return;
    }
    for (int64_t k1 = 0; k1 < t.depth; k1 += kStrip) {
      PackGroups({matrix + ((t.k0 + k1) * rows + t.col * kStrip), kStrip, 1, flip}, t.width,
                 std::min(kStrip, t.depth - k1), kInt8Cols, dst + k1 * kInt8Cols);
    }
  });
}

void RunInt8(const Int8Params& p) {
  assert(SizeOf(p.a.dtype) == 1 && SizeOf(p.b.dtype) == 1 && (p.c || p.program || p.requantise));
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  Job job;
  job.p = &p;
  job.tile = ChooseTile();
  job.a_signed = p.a.dtype == DType::kS8;
  job.a_in_place = ReadsAInPlace(p);
  if (job.a_in_place && isa::HasVnni()) job.dots = Int8DotsVnni();
  job.b_flip = p.a.dtype == p.b.dtype ? 0x80 : 0;
  if (job.b_flip) job.b_shift = job.a_signed ? 128 : 0u - 128;
  const auto uniform = [](const ZeroPoints& z) { return !z.data || z.stride == 0; };
  job.one_term = uniform(p.a_zero) && uniform(p.b_zero);
  if (p.chain) job.chain = BoundInt8Chain(*p.chain, p.args, p.batch, p.m, p.n);
  job.finishes = job.one_term && (p.chain || p.requantise);
  const int threads = Int8ThreadsFor(p.m * p.n * std::max<int64_t>(p.k, 1) * p.batch);
  const Cut cut(p, threads);
  const auto run = [&](int64_t i, int) {
    const int64_t tile = i % (cut.nm * cut.nn), row = tile / cut.nn * cut.rows,
                  col = tile % cut.nn * cut.cols;
    RunBlock(job, {{i / (cut.nm * cut.nn), row, std::min(cut.rows, p.m - row), col,
                    std::min(cut.cols, p.n - col)}});
  };
  const int64_t tasks = cut.nm * cut.nn * p.batch;
  if (threads == 1) {
    for (int64_t i = 0; i < tasks; ++i) run(i, 0);
  } else {
    ParallelFor(tasks, run);
  }
}

}  // namespace opsnn::gemm
