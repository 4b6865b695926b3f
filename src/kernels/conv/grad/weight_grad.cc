#include "kernels/conv/grad/weight_grad.h"

#include <algorithm>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/grad/weight_grad_blocks.h"
#include "kernels/conv/grad/weight_grad_few.h"
#include "kernels/conv/grad/weight_grad_tile.h"
#include "kernels/conv/pack.h"
#include "kernels/transpose/tile.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Two thirds of the smallest L1 in use: the rest holds the sums.
constexpr int64_t kRunBytes = 32 << 10;
// What all tiles read in turn stays in a private L2 of 2 MiB beside the sums; in a smaller one in part.
constexpr int64_t kSweepBytes = 1 << 20;
constexpr int64_t kPairBlocks = 2;  // output blocks per tile

// Output positions [begin, end) whose input position  at*stride + shift  lies in [0, size).
struct Range {
  int64_t begin = 0, end = 0;
};
Range Inside(int64_t count, int64_t stride, int64_t shift, int64_t size) {
  Range r;
  r.begin = shift < 0 ? CeilDiv(-shift, stride) : 0;
  r.end = size > shift ? std::min(count, CeilDiv(size - shift, stride)) : 0;
  r.begin = std::min(r.begin, r.end);
  return r;
}

class Run {
 public:
  Run(const WeightGradPlan& plan, const float* x, const float* dy, float* sums)
      : plan_(plan),
        s_(plan.shape),
        x_(x),
        dy_(dy),
        sums_(sums),
        fn_(plan.depthwise ? DepthwiseTap(plan.tier) : DenseTap(plan.tier)) {
    pairs_ = plan.depthwise ? plan.out_blocks : CeilDiv(plan.out_blocks, kPairBlocks);
    in_blocks_ = plan.depthwise ? 1 : plan.in_blocks;
    for (int64_t kx = 0; kx < s_.kw; ++kx) columns_.push_back(Inside(s_.ow, s_.sw, kx * s_.dw - s_.pl, s_.w));
  }
  int64_t tiles() const { return plan_.groups * in_blocks_ * pairs_; }
  // From here on, the rows of `chunk`. Before threads run.
  void Enter(const GradChunk& chunk);
  // Tiles [begin, end) over all pixels of the chunk; `ky_begin`, `ky_end`: rows of the kernel, counted
  // through its slices.
  void Tiles(int64_t begin, int64_t end, int64_t ky_begin, int64_t ky_end) const;
  // Tiles [begin, end), a few at a time in the sums of the first: what they read of a run stays in L1, and so
  // do their sums. `store` takes each as it is done.
  template <typename Store>
  void TilesInTurn(int64_t begin, int64_t end, Store&& store) const {
    const int64_t few = std::max<int64_t>(1, kFewSumsBytes / (SumsFloats(plan_) * kFloatBytes));
    for (int64_t tile = begin; tile < end; tile += few) {
      const int64_t stop = std::min(end, tile + few);
      std::fill_n(sums(begin), (stop - tile) * SumsFloats(plan_), 0.0f);
      for (int64_t run = 0; run < runs_; ++run)
        for (int64_t t = tile; t < stop; ++t) OneRun(t, sums(begin + t - tile), run, 0, s_.kd * s_.kh);
      for (int64_t t = tile; t < stop; ++t) store(t, sums(begin + t - tile));
    }
  }
  int64_t total_rows() const { return s_.n * s_.od * s_.oh; }
  // Sums of a tile: [channel][tap][blocks of the pair][kC0].
  int64_t lanes(int64_t pair) const {
    return (plan_.depthwise ? 1 : std::min(kPairBlocks, plan_.out_blocks - pair * kPairBlocks)) * kC0;
  }
  float* sums(int64_t tile) const { return sums_ + tile * SumsFloats(plan_); }
  static int64_t SumsFloats(const WeightGradPlan& p) {
    return p.shape.taps() * kC0 * (p.depthwise ? 1 : kC0 * std::min(kPairBlocks, p.out_blocks));
  }
  // Within a group the blocks of the larger image are the outer loop: the smaller one stays in L2.
  int64_t pair(int64_t tile) const { return plan_.pairs_outer ? tile / in_blocks_ % pairs_ : tile % pairs_; }
  int64_t in_block(int64_t tile) const {
    return plan_.pairs_outer ? tile % in_blocks_ : tile / pairs_ % in_blocks_;
  }
  int64_t group(int64_t tile) const { return tile / pairs_ / in_blocks_; }

 private:
  static constexpr int64_t kFewSumsBytes = 16 << 10;
  void OneRun(int64_t tile, float* sums, int64_t run, int64_t ky_begin, int64_t ky_end) const;

  const WeightGradPlan& plan_;
  const ConvShape& s_;
  const float *x_, *dy_;
  float* sums_;
  TapFn fn_;
  int64_t pairs_ = 0, in_blocks_ = 0;
  std::vector<Range> columns_;  // by kernel column
  // Rows that meet, by kernel row and then by run; first_row_[kernel row * runs_ + run]: where those of a run
  // begin.
  int64_t runs_ = 0;
  std::vector<RowPair> rows_;
  std::vector<int64_t> first_row_;
};

void Run::Enter(const GradChunk& chunk) {
  rows_.clear(), first_row_.clear();
  runs_ = CeilDiv(chunk.end - chunk.begin, plan_.run_rows);
  const int64_t x_row = s_.w * kC0, dy_row = s_.ow * kC0;
  for (int64_t k = 0; k < s_.kd * s_.kh; ++k) {
    const int64_t kz = k / s_.kh, ky = k % s_.kh;
    for (int64_t r = chunk.begin; r < chunk.end; ++r) {
      if ((r - chunk.begin) % plan_.run_rows == 0) first_row_.push_back(static_cast<int64_t>(rows_.size()));
      const int64_t oy = r % s_.oh, slice = r / s_.oh, oz = slice % s_.od, n = slice / s_.od;
      const int64_t iy = oy * s_.sh - s_.pt + ky * s_.dh, iz = oz * s_.sd - s_.pf + kz * s_.dd;
      if (iy < 0 || iy >= s_.h || iz < 0 || iz >= s_.d) continue;
      rows_.push_back({((n * s_.d + iz) * s_.h + iy - chunk.x_begin) * x_row, (r - chunk.begin) * dy_row});
    }
  }
  first_row_.push_back(static_cast<int64_t>(rows_.size()));
}

void Run::Tiles(int64_t begin, int64_t end, int64_t ky_begin, int64_t ky_end) const {
  const int64_t sweep = plan_.sweep_rows / plan_.run_rows;
  for (int64_t run = 0; run < runs_; run += sweep)
    for (int64_t tile = begin; tile < end; ++tile)
      for (int64_t r = run; r < std::min(runs_, run + sweep); ++r)
        OneRun(tile, sums(tile), r, ky_begin, ky_end);
}

void Run::OneRun(int64_t tile, float* sums, int64_t run, int64_t ky_begin, int64_t ky_end) const {
  const int64_t g = group(tile), p = pair(tile), out_block = plan_.depthwise ? p : p * kPairBlocks,
                in_block = plan_.depthwise ? p : this->in_block(tile);
  const float* const x = x_ + (g * plan_.in_blocks + in_block) * XBlockFloats(plan_);
  const float* const dy = dy_ + (g * plan_.out_blocks + out_block) * DyBlockFloats(plan_);
  TapArgs t;
  t.x_step = s_.sw * kC0;
  t.dy_block = DyBlockFloats(plan_);
  t.channels =
      static_cast<int>(std::min(plan_.block_channels, s_.c / s_.groups - in_block * plan_.block_channels));
  t.blocks = static_cast<int>(lanes(p) / kC0);
  t.sums_stride = s_.taps() * lanes(p);
  for (int64_t k = ky_begin; k < ky_end; ++k) {
    const int64_t* const first = first_row_.data() + k * runs_ + run;
    t.rows = rows_.data() + first[0];
    t.num_rows = first[1] - first[0];
    if (t.num_rows == 0) continue;
    for (int64_t kx = 0; kx < s_.kw; ++kx) {
      const Range& columns = columns_[static_cast<size_t>(kx)];
      t.pixels = columns.end - columns.begin;
      if (t.pixels <= 0) continue;
      t.x = x + (columns.begin * s_.sw - s_.pl + kx * s_.dw) * kC0;
      t.dy = dy + columns.begin * kC0;
      t.sums = sums + (k * s_.kw + kx) * lanes(p);
      fn_(t);
    }
  }
}

// The sums of a tile, lanes being output channels, to rows of dw.
void StoreTile(const WeightGradPlan& plan, const Run& run, int64_t tile, const float* sums, float* dw) {
  const ConvShape& s = plan.shape;
  const int64_t taps = s.taps(), p = run.pair(tile), lanes = run.lanes(p);
  if (plan.depthwise) {
    const int64_t real = std::min<int64_t>(kC0, s.oc - p * kC0);
    kernels::Transpose2D(
        {sizeof(float), taps, real, sums, kC0 * kFloatBytes, dw + p * kC0 * taps, taps * kFloatBytes});
    return;
  }
  const int64_t cg = s.c / s.groups, og = s.oc / s.groups, o = p * kPairBlocks * kC0,
                c = run.in_block(tile) * plan.block_channels;
  const int64_t channels = std::min(plan.block_channels, cg - c), real = std::min(lanes, og - o);
  float* const to = dw + ((run.group(tile) * og + o) * cg + c) * taps;
  if (!plan.spread) {
    kernels::Transpose2D(
        {sizeof(float), channels * taps, real, sums, lanes * kFloatBytes, to, cg * taps * kFloatBytes});
    return;
  }
  const int64_t kw = plan.given.kw;  // channel i is channel i / kw under kernel column i % kw
  for (int64_t i = c; i < c + channels; ++i)
    for (int64_t t = 0; t < taps; ++t, sums += lanes)
      for (int64_t l = 0; l < real; ++l)
        dw[(((o + l) * plan.given.c + i / kw) * taps + t) * kw + i % kw] = sums[l];
}

// A kernel of one position looks at no neighbours: several rows make one, as long as a tile's share of it
// stays in L1.
ConvShape JoinRows(ConvShape s) {
  const bool alone = s.taps() == 1 && s.sd == 1 && s.sh == 1 && s.sw == 1 && s.pf == 0 && s.pt == 0 &&
                     s.pl == 0 && s.od == s.d && s.oh == s.h && s.ow == s.w;
  if (!alone || s.d * s.h * s.w == 0) return s;
  const int64_t rows = s.d * s.h;
  int64_t join = std::clamp<int64_t>(kRunBytes / ((1 + kPairBlocks) * s.w * kC0 * kFloatBytes), 1, rows);
  while (rows % join != 0) --join;
  s.d = s.od = 1;
  s.h = s.oh = rows / join;
  s.w = s.ow = join * s.w;
  return s;
}

// Images beyond the cache are cut into blocks a chunk at a time, which all tiles read while it is in L2;
// unless the sums, which every chunk reads and writes, are so many that whole images in memory cost less.
// Chunks of volumes would meet slices again and again.
void MakeChunks(int64_t sums_bytes, WeightGradPlan* p) {
  const ConvShape& s = p->shape;
  constexpr int64_t kSumsInL2 = 768 << 10;
  const int64_t total = s.n * s.od * s.oh, x_row = p->groups * p->in_blocks * s.w * kC0 * kFloatBytes,
                dy_row = p->groups * p->out_blocks * s.ow * kC0 * kFloatBytes;
  const int64_t bytes = s.n * s.d * s.h * x_row + total * dy_row;
  p->chunk_rows = std::max<int64_t>(1, total), p->chunk_x_rows = s.n * s.d * s.h;
  const int64_t chunks = CeilDiv(bytes, kSweepBytes);
  if (!s.flat() || chunks <= 1 || (sums_bytes > kSumsInL2 && (chunks - 1) * sums_bytes > bytes)) return;
  const int64_t overlap = std::max<int64_t>(0, (s.kh - 1) * s.dh + 1 - s.sh) * x_row;
  int64_t rows = std::max(kSweepBytes - overlap, kSweepBytes / 2) / (s.sh * x_row + dy_row);
  rows = rows >= s.oh ? rows / s.oh * s.oh : CeilDiv(s.oh, CeilDiv(s.oh, std::max<int64_t>(1, rows)));
  if (rows < s.oh) rows = std::min(s.oh, RoundUp(rows, p->run_rows));
  p->chunk_rows = rows, p->chunk_x_rows = 0;
  for (int64_t row = 0; row < total;) {
    const GradChunk c = ChunkAt(s, row, rows);
    p->chunk_x_rows = std::max(p->chunk_x_rows, c.x_end - c.x_begin);
    row = c.end;
  }
}

}  // namespace

std::string WeightGradPlan::Describe() const {
  return StrFormat("weight gradient %s%dx%dx%d, runs of %d rows, %s",
                   depthwise      ? "depthwise "
                   : few_channels ? "of few channels "
                   : spread       ? "of spread columns "
                                  : "",
                   static_cast<int>(given.kd), static_cast<int>(given.kh), static_cast<int>(given.kw),
                   static_cast<int>(run_rows), isa::Name(tier));
}

namespace {

// Does some kernel column meet columns outside the image?
bool ColumnsMeetPadding(const ConvShape& s) {
  return s.pl > 0 || (s.ow - 1) * s.sw + (s.kw - 1) * s.dw - s.pl >= s.w;
}

WeightGradPlan PlanTiles(const ConvShape& given, bool may_spread) {
  constexpr int64_t kFewChannels = 4;
  WeightGradPlan p;
  p.given = given;
  p.tier = isa::ActiveTier();
  p.shape = JoinRows(given);
  p.spread = may_spread && given.groups == 1 && (given.kw == 1 ? given.sw > 1 : given.c <= kFewChannels);
  if (p.spread) {
    p.shape.c = given.c * given.kw;
    p.shape.w = given.ow;
    p.shape.kw = p.shape.sw = p.shape.dw = 1;
    p.shape.pl = 0;
  }
  const ConvShape& shape = p.shape;
  const int64_t cg = shape.c / shape.groups, og = shape.oc / shape.groups;
  p.depthwise = shape.groups > 1 && cg == 1 && og == 1;
  p.groups = p.depthwise ? 1 : shape.groups;
  p.in_blocks = CeilDiv(p.depthwise ? shape.c : cg, int64_t{kC0});
  p.out_blocks = CeilDiv(p.depthwise ? shape.oc : og, int64_t{kC0});
  if (p.spread) p.block_channels = CeilDiv(shape.c, p.in_blocks);
  // A row of output meets the input rows of its own stride; the overlap of kernels comes on top once per run.
  const int64_t x_row = shape.w * std::min(shape.sh, shape.kh) * kC0 * kFloatBytes,
                dy_row = shape.ow * kC0 * kFloatBytes;
  const int64_t total = std::max<int64_t>(1, shape.n * shape.od * shape.oh);
  const auto rows = [total](int64_t bytes, int64_t row) {
    return std::clamp<int64_t>(bytes / std::max<int64_t>(1, row), 1, total);
  };
  p.run_rows = rows(kRunBytes, x_row + kPairBlocks * dy_row);
  const int64_t in_rows = p.in_blocks * x_row, out_rows = p.out_blocks * dy_row;
  p.pairs_outer = !p.depthwise && out_rows > in_rows;
  p.sweep_rows = rows(
      kSweepBytes, p.groups * std::min(in_rows, out_rows) + (p.pairs_outer ? kPairBlocks * dy_row : x_row));
  p.sweep_rows = CeilDiv(p.sweep_rows, p.run_rows) * p.run_rows;
  constexpr int64_t kAlignFloats = 32;
  int64_t floats = 0;
  const auto reserve = [&floats](int64_t n) {
    const int64_t at = floats;
    floats += RoundUp(n, kAlignFloats);
    return at;
  };
  const int64_t tiles = p.groups * (p.depthwise ? 1 : p.in_blocks) *
                        (p.depthwise ? p.out_blocks : CeilDiv(p.out_blocks, kPairBlocks));
  MakeChunks(tiles * Run::SumsFloats(p) * kFloatBytes, &p);
  p.x_offset = reserve(p.groups * p.in_blocks * XBlockFloats(p));
  p.dy_offset = reserve(p.groups * p.out_blocks * DyBlockFloats(p));
  p.sums_offset = reserve(tiles * Run::SumsFloats(p));
  p.workspace_bytes = static_cast<size_t>(floats) * sizeof(float);
  return p;
}

void RunTiles(const WeightGradPlan& plan, const float* x, const float* dy, float* dw, void* workspace) {
  const ConvShape& s = plan.shape;
  float* const ws = static_cast<float*>(workspace);
  float *const blocked_x = ws + plan.x_offset, *const blocked_dy = ws + plan.dy_offset;
  Run run(plan, blocked_x, blocked_dy, ws + plan.sums_offset);
  const int64_t tiles = run.tiles(), kernel_rows = s.kd * s.kh, threads = ThreadsAvailable();
  // Threads own ranges of tiles, which they sweep together; few tiles are shared out by rows of the kernel
  // too.
  constexpr int64_t kTasksPerThread = 2;
  const int64_t ranges = std::min(tiles, threads == 1 ? 1 : threads * kTasksPerThread);
  const auto first = [&](int64_t range) { return tiles * range / ranges; };
  const bool one_chunk = plan.chunk_rows >= run.total_rows();
  if (one_chunk && ranges >= threads && plan.sweep_rows >= run.total_rows()) {
    const GradChunk all = ChunkAt(s, 0, run.total_rows());
    run.Enter(all);
    BlockChunk(plan, all, x, dy, blocked_x, blocked_dy);
    ParallelFor(ranges, [&](int64_t i, int) {  // each tile at once: its sums stay in L1
      run.TilesInTurn(first(i), first(i + 1),
                      [&](int64_t tile, const float* sums) { StoreTile(plan, run, tile, sums, dw); });
    });
    return;
  }
  const int64_t parts =
      ranges >= threads ? 1 : std::min(kernel_rows, CeilDiv(threads, std::max<int64_t>(1, ranges)));
  ParallelFor(tiles, [&](int64_t i, int) { std::fill_n(run.sums(i), Run::SumsFloats(plan), 0.0f); });
  for (int64_t row = 0; row < run.total_rows();) {
    const GradChunk chunk = ChunkAt(s, row, plan.chunk_rows);
    run.Enter(chunk);
    BlockChunk(plan, chunk, x, dy, blocked_x, blocked_dy);
    ParallelFor(ranges * parts, [&](int64_t i, int) {
      const int64_t range = i / parts, part = i % parts;
      run.Tiles(first(range), first(range + 1), kernel_rows * part / parts, kernel_rows * (part + 1) / parts);
    });
    row = chunk.end;
  }
  ParallelFor(tiles, [&](int64_t i, int) { StoreTile(plan, run, i, run.sums(i), dw); });
}

}  // namespace

WeightGradPlan PlanWeightGrad(const ConvShape& given) {
  if (FitsFewChannels(given)) {
    WeightGradPlan p;
    p.given = given;
    p.tier = isa::ActiveTier();
    PlanFewChannels(&p);
    return p;
  }
  WeightGradPlan p = PlanTiles(given, true);
  if (p.spread && ColumnsMeetPadding(given)) {
    p.plain = std::make_shared<WeightGradPlan>(PlanTiles(given, false));
    p.workspace_bytes = std::max(p.workspace_bytes, p.plain->workspace_bytes);
  }
  return p;
}

void RunWeightGrad(const WeightGradPlan& plan, const float* x, const float* dy, float* dw, void* workspace) {
  if (plan.few_channels) return RunFewChannels(plan, x, dy, dw, workspace);
  RunTiles(plan, x, dy, dw, workspace);
  const ConvShape& s = plan.given;
  if (plan.plain && !AllFinite(dw, s.oc * (s.c / s.groups) * s.taps()))
    RunTiles(*plan.plain, x, dy, dw, workspace);
}

}  // namespace opsnn::conv
