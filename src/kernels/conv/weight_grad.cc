#include "kernels/conv/weight_grad.h"

#include <algorithm>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/blocked.h"
#include "kernels/conv/weight_grad_tile.h"
#include "kernels/transpose/tile.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Two thirds of the smallest L1 in use: the rest holds the sums.
constexpr int64_t kRunBytes = 32 << 10;
// What all tiles read in turn stays in a private L2 of 2 MiB beside the sums; in a smaller one in part.
constexpr int64_t kSweepBytes = 1 << 20;
constexpr int64_t kPairBlocks = 2;  // output blocks per tile

// Blocks of a channel range that starts at a group: [image][group][block][pixel][kC0], other lanes 0.
void BlockImages(const float* nchw, int64_t images, int64_t groups, int64_t channels, int64_t pixels,
                 float* blocked) {
  const int64_t blocks = CeilDiv(channels, int64_t{kC0});
  ParallelFor(images * groups * blocks, [&](int64_t i, int) {
    const int64_t image = i / blocks, b = i % blocks;
    const int lanes = static_cast<int>(std::min<int64_t>(kC0, channels - b * kC0));
    ToBlocked(nchw + (image * channels + b * kC0) * pixels, pixels, lanes, pixels,
              blocked + i * pixels * kC0);
  });
}

// Images of few channels: pixel (row, ox) holds what output column ox meets in that row, channel by channel
// and kernel column by kernel column; 0 in the padding.
void SpreadImages(const float* nchw, const ConvShape& s, float* blocked) {
  const int64_t lanes = s.c * s.kw, blocks = CeilDiv(lanes, int64_t{kC0}), rows = s.d * s.h;
  ParallelFor(s.n * blocks * rows, [&](int64_t i, int) {
    thread_local std::vector<float> line;  // [lane][ox]
    const int64_t row = i % rows, b = i / rows % blocks, n = i / rows / blocks;
    const int64_t first = b * kC0, count = std::min<int64_t>(kC0, lanes - first);
    line.assign(static_cast<size_t>(count * s.ow), 0.0f);
    for (int64_t l = 0; l < count; ++l) {
      const int64_t c = (first + l) / s.kw, kx = (first + l) % s.kw;
      const float* from = nchw + ((n * s.c + c) * rows + row) * s.w;
      const int64_t shift = kx * s.dw - s.pl;
      for (int64_t ox = shift < 0 ? CeilDiv(-shift, s.sw) : 0; ox < s.ow && ox * s.sw + shift < s.w; ++ox)
        line[static_cast<size_t>(l * s.ow + ox)] = from[ox * s.sw + shift];
    }
    ToBlocked(line.data(), s.ow, static_cast<int>(count), s.ow, blocked + i * s.ow * kC0);
  });
}

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
  // Tiles [begin, end) over all pixels; `ky_begin`, `ky_end`: rows of the kernel, counted through its slices.
  void Tiles(int64_t begin, int64_t end, int64_t ky_begin, int64_t ky_end) const;
  // Tiles [begin, end), one after the other, in the sums of the first; `store` takes each as it is done.
  template <typename Store>
  void TilesInTurn(int64_t begin, int64_t end, Store&& store) const {
    for (int64_t tile = begin; tile < end; ++tile) {
      std::fill_n(sums(begin), SumsFloats(plan_), 0.0f);
      Sweep(tile, sums(begin), 0, total_rows(), 0, s_.kd * s_.kh);
      store(tile, sums(begin));
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
  void Sweep(int64_t tile, float* sums, int64_t row_begin, int64_t row_end, int64_t ky_begin,
             int64_t ky_end) const;
  void OneRun(int64_t tile, float* sums, int64_t row_begin, int64_t row_end, int64_t ky_begin, int64_t ky_end,
              std::vector<RowPair>* rows) const;

  const WeightGradPlan& plan_;
  const ConvShape& s_;
  const float *x_, *dy_;
  float* sums_;
  TapFn fn_;
  int64_t pairs_ = 0, in_blocks_ = 0;
  std::vector<Range> columns_;  // by kernel column
};

void Run::Tiles(int64_t begin, int64_t end, int64_t ky_begin, int64_t ky_end) const {
  for (int64_t row = 0; row < total_rows(); row += plan_.sweep_rows) {
    const int64_t row_end = std::min(total_rows(), row + plan_.sweep_rows);
    for (int64_t tile = begin; tile < end; ++tile) Sweep(tile, sums(tile), row, row_end, ky_begin, ky_end);
  }
}

void Run::Sweep(int64_t tile, float* sums, int64_t row_begin, int64_t row_end, int64_t ky_begin,
                int64_t ky_end) const {
  thread_local std::vector<RowPair> rows;
  for (int64_t row = row_begin; row < row_end; row += plan_.run_rows)
    OneRun(tile, sums, row, std::min(row_end, row + plan_.run_rows), ky_begin, ky_end, &rows);
}

// Rows [row_begin, row_end) of all slices of all images.
void Run::OneRun(int64_t tile, float* sums, int64_t row_begin, int64_t row_end, int64_t ky_begin,
                 int64_t ky_end, std::vector<RowPair>* rows) const {
  const int64_t g = group(tile), p = pair(tile), out_block = plan_.depthwise ? p : p * kPairBlocks,
                in_block = plan_.depthwise ? p : this->in_block(tile);
  const int64_t x_row = s_.w * kC0, dy_row = s_.ow * kC0, x_plane = s_.plane() * kC0,
                dy_plane = s_.out_plane() * kC0;
  TapArgs t;
  t.x_step = s_.sw * kC0;
  t.dy_block = dy_plane;
  t.channels = static_cast<int>(std::min<int64_t>(kC0, s_.c / s_.groups - in_block * kC0));
  t.blocks = static_cast<int>(lanes(p) / kC0);
  t.sums_stride = s_.taps() * lanes(p);
  for (int64_t k = ky_begin; k < ky_end; ++k) {
    const int64_t kz = k / s_.kh, ky = k % s_.kh;
    rows->clear();
    for (int64_t r = row_begin; r < row_end; ++r) {
      const int64_t oy = r % s_.oh, slice = r / s_.oh, oz = slice % s_.od, n = slice / s_.od;
      const int64_t iy = oy * s_.sh - s_.pt + ky * s_.dh, iz = oz * s_.sd - s_.pf + kz * s_.dd;
      if (iy < 0 || iy >= s_.h || iz < 0 || iz >= s_.d) continue;
      const int64_t image = n * plan_.groups + g;
      rows->push_back({(image * plan_.in_blocks + in_block) * x_plane + (iz * s_.h + iy) * x_row,
                       (image * plan_.out_blocks + out_block) * dy_plane + (oz * s_.oh + oy) * dy_row});
    }
    t.rows = rows->data();
    t.num_rows = static_cast<int64_t>(rows->size());
    if (t.num_rows == 0) continue;
    for (int64_t kx = 0; kx < s_.kw; ++kx) {
      const Range& columns = columns_[static_cast<size_t>(kx)];
      t.pixels = columns.end - columns.begin;
      if (t.pixels <= 0) continue;
      t.x = x_ + (columns.begin * s_.sw - s_.pl + kx * s_.dw) * kC0;
      t.dy = dy_ + columns.begin * kC0;
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
                c = run.in_block(tile) * kC0;
  const int64_t channels = std::min<int64_t>(kC0, cg - c), real = std::min(lanes, og - o);
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

}  // namespace

std::string WeightGradPlan::Describe() const {
  return StrFormat("weight gradient %s%dx%dx%d, runs of %d rows, %s",
                   depthwise ? "depthwise "
                   : spread  ? "of few channels "
                             : "",
                   static_cast<int>(given.kd), static_cast<int>(given.kh), static_cast<int>(given.kw),
                   static_cast<int>(run_rows), isa::Name(tier));
}

WeightGradPlan PlanWeightGrad(const ConvShape& given) {
  constexpr int64_t kFewChannels = 4;
  WeightGradPlan p;
  p.given = p.shape = given;
  p.tier = isa::ActiveTier();
  p.spread = given.groups == 1 && given.c <= kFewChannels && given.kw > 1;
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
  p.x_offset = reserve(shape.n * p.groups * p.in_blocks * kC0 * shape.plane());
  p.dy_offset = reserve(shape.n * p.groups * p.out_blocks * kC0 * shape.out_plane());
  const int64_t tiles = p.groups * (p.depthwise ? 1 : p.in_blocks) *
                        (p.depthwise ? p.out_blocks : CeilDiv(p.out_blocks, kPairBlocks));
  p.sums_offset = reserve(tiles * Run::SumsFloats(p));
  p.workspace_bytes = static_cast<size_t>(floats) * sizeof(float);
  return p;
}

void RunWeightGrad(const WeightGradPlan& plan, const float* x, const float* dy, float* dw, void* workspace) {
  const ConvShape& s = plan.shape;
  float* const ws = static_cast<float*>(workspace);
  const bool whole = plan.depthwise;  // channels of all groups together
  if (plan.spread) {
    SpreadImages(x, plan.given, ws + plan.x_offset);
  } else {
    BlockImages(x, s.n, plan.groups, whole ? s.c : s.c / s.groups, s.plane(), ws + plan.x_offset);
  }
  BlockImages(dy, s.n, plan.groups, whole ? s.oc : s.oc / s.groups, s.out_plane(), ws + plan.dy_offset);
  const Run run(plan, ws + plan.x_offset, ws + plan.dy_offset, ws + plan.sums_offset);
  const int64_t tiles = run.tiles(), kernel_rows = s.kd * s.kh, threads = ThreadsAvailable();
  // Threads own ranges of tiles, which they sweep together; few tiles are shared out by rows of the kernel
  // too.
  constexpr int64_t kTasksPerThread = 2;
  const int64_t ranges = std::min(tiles, threads == 1 ? 1 : threads * kTasksPerThread);
  const auto first = [&](int64_t range) { return tiles * range / ranges; };
  if (ranges >= threads && plan.sweep_rows >= run.total_rows()) {  // each tile at once: its sums stay in L1
    ParallelFor(ranges, [&](int64_t i, int) {
      run.TilesInTurn(first(i), first(i + 1),
                      [&](int64_t tile, const float* sums) { StoreTile(plan, run, tile, sums, dw); });
    });
    return;
  }
  const int64_t parts =
      ranges >= threads ? 1 : std::min(kernel_rows, CeilDiv(threads, std::max<int64_t>(1, ranges)));
  ParallelFor(tiles, [&](int64_t i, int) { std::fill_n(run.sums(i), Run::SumsFloats(plan), 0.0f); });
  ParallelFor(ranges * parts, [&](int64_t i, int) {
    const int64_t range = i / parts, part = i % parts;
    run.Tiles(first(range), first(range + 1), kernel_rows * part / parts, kernel_rows * (part + 1) / parts);
  });
  ParallelFor(tiles, [&](int64_t i, int) { StoreTile(plan, run, i, run.sums(i), dw); });
}

}  // namespace opsnn::conv
