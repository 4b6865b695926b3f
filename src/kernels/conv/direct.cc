// Driver of the direct convolution: cuts the output into chunks of rows, rows into register tiles.
#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstring>

#include "base/parallel.h"
#include "base/work_range.h"
#include "kernels/conv/act_pass.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/segments.h"
#include "kernels/conv/tile.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kSlack = 2 * kMaxPixels;  // floats that a row tile may read behind a row

// Packed weights up to this size stay in L2 beside a chunk of the input, so that all output groups may visit
// a pixel tile while its input is in L1. Larger weights are walked in the outer loop: each is then read once
// per chunk.
constexpr int64_t kResidentWeightBytes = 512 << 10;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::array<std::vector<TileKernel>, isa::kNumTiers> MakeTileLists() {
  std::array<std::vector<TileKernel>, isa::kNumTiers> lists;
  for (int t = 0; t < isa::kNumTiers; ++t) {
    for (const auto& tiles : {OneBlockTiles, TwoBlockTiles, ManyBlockTiles}) {
      const std::span<const TileKernel> s = tiles(static_cast<isa::Tier>(t));
      lists[t].insert(lists[t].end(), s.begin(), s.end());
    }
  }
  return lists;
}

const std::vector<TileKernel>& TileList(isa::Tier tier) {
  static const auto lists = MakeTileLists();
  return lists[static_cast<int>(tier)];
}

// One register tile of pixels: where they are, shared by all output groups.
struct TileGeometry {
  const TileKernel* kernel = nullptr;
  int pixels = 0;
  int64_t repeat = 1;  // row tiles: neighbours that one call does
  int64_t masks = -1;  // index of its first mask, or -1 when every tap of every pixel lies in the image
  Step step = Step::kTable;
  bool in_row = false;
  int64_t x = 0, y = 0;  // row tiles: offsets of the first pixel; table tiles: 0
  int64_t table = -1;    // table tiles: index of the first of their input offsets, then their output offsets
};

constexpr int64_t StepFloats(Step s) { return s == Step::kBlock ? kC0 : s == Step::kTwo ? 2 : 1; }

// Rows [begin, end) of the phase grid, counted through all images.
struct RowRange {
  int64_t begin = 0, end = 0;
  bool operator==(const RowRange&) const = default;
};

// What one task works with; kept by the thread between tasks so that nothing is allocated in the long run.
struct TaskState {
  struct Key {  // what the tiles were made for
    uint64_t run = 0;
    size_t phase = 0;
    RowRange rows;
    int blocks = 0;
    bool operator==(const Key&) const = default;
  } made_for;
  std::vector<TileGeometry> tiles;
  std::vector<int64_t> offsets;
  std::vector<uint32_t> masks, column_masks;
};

uint64_t NextRun() {
  static std::atomic<uint64_t> runs{0};
  return runs.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Activations that the tile does not apply itself, on what it stored.
void ActOnTile(const TileArgs& t, int blocks) {
  for (int b = 0; b < blocks; ++b) {
    float* y = t.y + b * t.block_stride;
    if (!t.out_offset) {
      PostPass(*t.post, y, t.pixels * t.repeat * kC0);
      continue;
    }
    for (int p = 0; p < t.pixels; ++p) {
      PostPass(*t.post, y + t.out_offset[p] + t.lane_begin, t.lane_end - t.lane_begin);
    }
  }
}

class DirectRun {
 public:
  DirectRun(const ConvPlan& plan, const ConvArgs& args)
      : plan_(plan), s_(plan.shape), args_(args), ops_(PrepareOperands(plan, args)), post_(args.post()) {
    blocks_ = CeilDiv(s_.oc, kC0);
    in_blocks_ = CeilDiv(s_.c, kC0);
    for (const Phase& p : plan.phases) rows_ = std::max(rows_, p.rows);
    if (first_layer()) {
      padded_w_ = (s_.ow - 1) * s_.sw + (s_.kw - 1) * s_.dw + 1;
      row_rounds_ = RowsPerTask(s_.oh, RowBytes(), ThreadsAvailable());
      padded_rows_ = (row_rounds_ - 1) * s_.sh + (s_.kh - 1) * s_.dh + 1;
    }
    step_ = ChooseStep();
    shared_phases_ = PhasesAlike();
    MakeSegments();
  }
  void Run();

 private:
  bool first_layer() const { return plan_.variant == Variant::kFirstLayer; }
  // Bytes of cache that one row of work wants: what it reads and, where weights stay beside it, what it
  // writes. Streamed weights pass over the whole chunk group by group, and output is written but once.
  int64_t RowBytes() const {
    if (first_layer()) return (s_.c * s_.w * s_.sh + blocks_ * kC0 * s_.ow) * kFloatBytes;
    const int64_t in = in_blocks_ * kC0 * s_.w * plan_.in_step_h;
    const int64_t out = blocks_ * kC0 * s_.ow * plan_.out_step_h;
    if (plan_.packed_floats * kFloatBytes <= kResidentWeightBytes) return (in + out) * kFloatBytes;
    // Strides beyond the kernel skip rows and columns.
    return in * std::min(s_.kh, s_.sh) * std::min(s_.kw, s_.sw) / (s_.sh * s_.sw) * kFloatBytes;
  }
  // Row tiles need pixels that are neighbours in input and output alike and never at a border.
  Step ChooseStep() const {
    if (plan_.variant == Variant::kPointwise) return Step::kBlock;
    if (first_layer() && s_.sw == 1) return Step::kOne;
    if (first_layer() && s_.sw == 2) return Step::kTwo;
    return Step::kTable;
  }
  // Do all phases read the same input pixels for the same position of the grid? So with kernel = stride.
  bool PhasesAlike() const {
    const Phase& a = plan_.phases[0];
    return std::all_of(plan_.phases.begin(), plan_.phases.end(), [&a](const Phase& b) {
      return a.rows == b.rows && a.cols == b.cols &&
             std::equal(a.taps.begin(), a.taps.end(), b.taps.begin(), b.taps.end(),
                        [](const Tap& s, const Tap& t) { return s.dy == t.dy && s.dx == t.dx; });
    });
  }
  size_t SegmentClass(const OcGroup& g) const { return plan_.variant == Variant::kGrouped ? g.group : 0; }
  void MakeSegments();
  bool SharesGroups(int threads) const;
  void ShareGroups(int threads) const;
  void RunTask(RowRange rows, size_t group_begin, size_t group_end) const;
  // Phases [ph0, ph1), which share their tiles, times groups [g0, g1), which have equally many blocks.
  void RunGroups(RowRange rows, size_t ph0, size_t ph1, size_t g0, size_t g1, const float* x) const;
  // One group in some rows. `after`: the group whose weights are fetched meanwhile, or null.
  void RunGroup(const TaskState& state, size_t phase, const OcGroup& g, const float* x,
                const OcGroup* after) const;
  int64_t GroupFloats(size_t phase, const OcGroup& g) const;
  const TaskState& Tiles(size_t phase, RowRange rows, int blocks) const;
  const float* CopyPadded(RowRange rows) const;
  void MakeTiles(const Phase& phase, RowRange rows, int blocks, TaskState* state) const;
  void MakeRowTiles(RowRange rows, int blocks, TaskState* state) const;
  void ExtendAlongRow(const Phase& phase, int64_t x, TileGeometry* tile, TaskState* state) const;
  void PlacePixels(const Phase& phase, const RowRange& rows, int64_t first, TileGeometry* tile,
                   TaskState* state) const;
  // `next`, `next_floats`: weights to be fetched meanwhile.
  void MakeMasks(const Phase& phase, const int64_t* ys, const int64_t* xs, TileGeometry* tile,
                 TaskState* state) const;
  void RunTile(const TileGeometry& tile, const TaskState& state, size_t phase, const OcGroup& g,
               const float* x, const float* next = nullptr, int64_t next_floats = 0) const;
  void Finish(RowRange rows, size_t group_begin, size_t group_end) const;

  const uint64_t run_ = NextRun();
  const ConvPlan& plan_;
  const ConvShape& s_;
  const ConvArgs& args_;
  Operands ops_;
  const Post post_;
  int64_t blocks_ = 0, in_blocks_ = 0;
  int64_t rows_ = 0;  // rows of the longest phase
  Step step_ = Step::kTable;
  bool shared_phases_ = false;
  // First layer: a padded copy of the input rows under a task, [channel][row][padded_w_].
  int64_t padded_w_ = 0, padded_rows_ = 0, row_rounds_ = 0;
  std::vector<std::vector<Segment>> segments_;  // [class * phases + phase]
};

void DirectRun::MakeSegments() {
  const int64_t plane = s_.h * s_.w * kC0;
  size_t classes = 1;
  for (const OcGroup& g : plan_.oc_groups) classes = std::max(classes, SegmentClass(g) + 1);
  segments_.resize(classes * plan_.phases.size());
  for (const OcGroup& g : plan_.oc_groups) {
    for (size_t ph = 0; ph < plan_.phases.size(); ++ph) {
      std::vector<Segment>& list = segments_[SegmentClass(g) * plan_.phases.size() + ph];
      if (!list.empty()) continue;
      const Phase& phase = plan_.phases[ph];
      // Offsets count from the group's first channel block.
      const int64_t c_base = g.c_begin / kC0 * kC0;
      ForEachSegment(plan_, g, phase, [&](int64_t c, int tap, int len) {
        const Tap& t = phase.taps[tap];
        const int64_t offset =
            first_layer() ? (c * padded_rows_ + t.ky * s_.dh) * padded_w_
                          : (c - c_base) / kC0 * plane + c % kC0 + (int64_t{t.dy} * s_.w + t.dx) * kC0;
        list.push_back({offset, tap, len});
      });
    }
  }
}

// Threads that share out rows all read every weight, threads that share out output groups all read the whole
// input: the smaller of the two is read by everybody. That also keeps the tiles of small images whole.
bool DirectRun::SharesGroups(int threads) const {
  if (threads == 1 || first_layer() || plan_.variant == Variant::kGrouped) return false;
  const int64_t input = s_.n * in_blocks_ * kC0 * s_.h * s_.w;
  return plan_.packed_floats > input && static_cast<int64_t>(plan_.oc_groups.size()) >= threads;
}

void DirectRun::Run() {
  const int64_t total_rows = first_layer() ? s_.oh : s_.n * rows_;
  const int64_t groups = static_cast<int64_t>(plan_.oc_groups.size());
  const int threads = ThreadsAvailable();
  if (SharesGroups(threads)) return ShareGroups(threads);
  const int64_t per_task = first_layer() ? row_rounds_ : RowsPerTask(total_rows, RowBytes(), threads);
  const int64_t row_tasks = CeilDiv(total_rows, per_task) * (first_layer() ? s_.n : 1);
  // Few rows (small images): also split the output groups.
  int64_t splits = 1;
  if (threads > 1 && plan_.variant != Variant::kGrouped)
    splits = std::min(groups, CeilDiv(threads * kTasksPerThread, row_tasks));
  const int64_t chunks = CeilDiv(total_rows, per_task);
  ParallelFor(row_tasks * splits, [&](int64_t i, int) {
    const int64_t task = i / splits, part = i % splits;
    const int64_t image_base = first_layer() ? task / chunks * s_.oh : 0;
    const int64_t chunk = first_layer() ? task % chunks : task;
    const RowRange rows{image_base + chunk * per_task,
                        image_base + std::min((chunk + 1) * per_task, total_rows)};
    RunTask(rows, static_cast<size_t>(groups * part / splits),
            static_cast<size_t>(groups * (part + 1) / splits));
  });
}

// Every thread owns a range of output groups, so that it knows which weights it needs next and can have them
// fetched; one that is done helps at the far end of the other ranges.
void DirectRun::ShareGroups(int threads) const {
  const int64_t total_rows = s_.n * rows_, per_chunk = RowsPerTask(total_rows, RowBytes(), 1);
  const int64_t groups = static_cast<int64_t>(plan_.oc_groups.size());
  std::vector<WorkRange> ranges(static_cast<size_t>(threads));
  for (int64_t t = 0; t < threads; ++t)
    ranges[static_cast<size_t>(t)].Set(groups * t / threads, groups * (t + 1) / threads);
  const auto run = [&](int64_t group, bool more) {
    const auto g = static_cast<size_t>(group);
    const OcGroup* after = more ? &plan_.oc_groups[g + 1] : nullptr;
    for (int64_t row = 0; row < total_rows; row += per_chunk) {
      const RowRange rows{row, std::min(row + per_chunk, total_rows)};
      const bool last = rows.end == total_rows;
      for (size_t ph = 0; ph < plan_.phases.size(); ++ph) {
        RunGroup(Tiles(ph, rows, plan_.oc_groups[g].blocks), ph, plan_.oc_groups[g], ops_.x,
                 last ? after : nullptr);
      }
      Finish(rows, g, g + 1);
    }
  };
  ParallelFor(threads, [&](int64_t own, int) {
    int64_t g;
    bool more;
    while (ranges[static_cast<size_t>(own)].TakeFirst(&g, &more)) run(g, more);
    for (int64_t t = 1; t < threads; ++t)
      while (ranges[static_cast<size_t>((own + t) % threads)].TakeLast(&g)) run(g, false);
  });
}

void DirectRun::RunTask(RowRange rows, size_t group_begin, size_t group_end) const {
  const float* x = first_layer() ? CopyPadded(rows) : ops_.x;
  if (first_layer() && !x) return;
  const size_t per_step = shared_phases_ ? plan_.phases.size() : 1;
  for (size_t ph = 0; ph < plan_.phases.size(); ph += per_step) {
    for (size_t g0 = group_begin; g0 < group_end;) {
      size_t g1 = g0;  // a run of groups with equally many blocks shares its tiles
      while (g1 < group_end && plan_.oc_groups[g1].blocks == plan_.oc_groups[g0].blocks) ++g1;
      RunGroups(rows, ph, ph + per_step, g0, g1, x);
      g0 = g1;
    }
  }
  Finish(rows, group_begin, group_end);
}

void DirectRun::RunGroups(RowRange rows, size_t ph0, size_t ph1, size_t g0, size_t g1, const float* x) const {
  const OcGroup& first = plan_.oc_groups[g0];
  const TaskState& state = Tiles(ph0, rows, first.blocks);
  const int64_t group_floats = GroupFloats(ph0, first);
  const int64_t weight_bytes = group_floats * static_cast<int64_t>((g1 - g0) * (ph1 - ph0) * sizeof(float));
  if (weight_bytes <= kResidentWeightBytes) {
    for (const TileGeometry& tile : state.tiles)
      for (size_t ph = ph0; ph < ph1; ++ph)
        for (size_t g = g0; g < g1; ++g) RunTile(tile, state, ph, plan_.oc_groups[g], x);
    return;
  }
  for (size_t ph = ph0; ph < ph1; ++ph)
    for (size_t g = g0; g < g1; ++g)
      RunGroup(state, ph, plan_.oc_groups[g], x, g + 1 < g1 ? &plan_.oc_groups[g + 1] : nullptr);
}

int64_t DirectRun::GroupFloats(size_t phase, const OcGroup& g) const {
  return (g.c_end - g.c_begin) * static_cast<int64_t>(plan_.phases[phase].taps.size()) * g.blocks * kC0;
}

const TaskState& DirectRun::Tiles(size_t phase, RowRange rows, int blocks) const {
  thread_local TaskState state;
  const TaskState::Key key{run_, phase, rows, blocks};
  if (state.made_for != key) {
    MakeTiles(plan_.phases[phase], rows, blocks, &state);
    state.made_for = key;
  }
  return state;
}

void DirectRun::RunGroup(const TaskState& state, size_t phase, const OcGroup& g, const float* x,
                         const OcGroup* after) const {
  int64_t num_tiles = 0;
  for (const TileGeometry& tile : state.tiles) num_tiles += tile.repeat;
  // Each tile asks for its share of the weights to come, which arrive from memory once.
  const float* next = after ? args_.weights + after->weight_offset[phase] : nullptr;
  const int64_t next_floats = after ? GroupFloats(phase, *after) : 0;
  for (const TileGeometry& tile : state.tiles) {
    const int64_t share = next ? next_floats * tile.repeat / num_tiles : 0;
    RunTile(tile, state, phase, g, x, next, share);
    if (next) next += share;
  }
}

// Copies the input rows under `rows` (of one image) with their padding written out. Behind the last row there
// is room for what the unused pixels of a tile read. Null when there is no memory.
const float* DirectRun::CopyPadded(RowRange rows) const {
  float* dst = static_cast<float*>(
      ThreadScratch(static_cast<size_t>(s_.c * padded_rows_ * padded_w_ + kSlack) * sizeof(float)));
  if (!dst) return nullptr;
  std::fill_n(dst + s_.c * padded_rows_ * padded_w_, kSlack, 0.0f);
  const int64_t n = rows.begin / s_.oh, first = rows.begin % s_.oh * s_.sh - s_.pt;
  const int64_t need = (rows.end - rows.begin - 1) * s_.sh + (s_.kh - 1) * s_.dh + 1;
  // Column j of the copy is input column j - pl.
  const int64_t x0 = std::clamp<int64_t>(s_.pl, 0, padded_w_),
                x1 = std::clamp<int64_t>(s_.pl + s_.w, x0, padded_w_);
  for (int64_t c = 0; c < s_.c; ++c) {
    for (int64_t r = 0; r < need; ++r) {
      float* row = dst + (c * padded_rows_ + r) * padded_w_;
      const int64_t iy = first + r;
      if (iy < 0 || iy >= s_.h) {
        std::fill(row, row + padded_w_, 0.0f);
        continue;
      }
      std::fill(row, row + x0, 0.0f);
      const float* src = ops_.x + ((n * s_.c + c) * s_.h + iy) * s_.w + (x0 - s_.pl);
      std::copy(src, src + (x1 - x0), row + x0);
      std::fill(row + x1, row + padded_w_, 0.0f);
    }
  }
  return dst;
}

// Tiles over the pixels of `rows` in one phase, flattened across rows and images.
void DirectRun::MakeTiles(const Phase& phase, RowRange rows, int blocks, TaskState* state) const {
  state->tiles.clear();
  state->offsets.clear();
  state->masks.clear();
  if (step_ != Step::kTable) return MakeRowTiles(rows, blocks, state);
  // Rows of the range that this phase has: phases may be one row shorter than the longest.
  RowRange have{rows.begin / rows_ * phase.rows + std::min(rows.begin % rows_, phase.rows),
                rows.end / rows_ * phase.rows + std::min(rows.end % rows_, phase.rows)};
  const int64_t end = have.end * phase.cols;
  for (int64_t at = have.begin * phase.cols; at < end;) {
    const TileKernel& kernel = FindTile(plan_.tier, blocks, end - at);
    TileGeometry& tile = state->tiles.emplace_back();
    tile.kernel = &kernel;
    tile.pixels = static_cast<int>(std::min<int64_t>(kernel.pixels, end - at));
    PlacePixels(phase, rows, at, &tile, state);
    ExtendAlongRow(phase, at % phase.cols, &tile, state);
    at += tile.pixels * tile.repeat;
  }
}

// A table tile whose pixels and followers lie in one row, away from the borders, becomes a repeated row tile.
void DirectRun::ExtendAlongRow(const Phase& phase, int64_t x, TileGeometry* tile, TaskState* state) const {
  // Tiles that store a part of their lanes are not repeated.
  const bool plain = plan_.variant != Variant::kGrouped && plan_.in_step_w == 1 && plan_.out_step_w == 1 &&
                     tile->kernel->For(Step::kBlock);
  if (!plain || !tile->in_row || tile->masks >= 0 || phase.taps.empty()) return;
  const int64_t reach = std::max(phase.taps.front().dx, phase.taps.back().dx);
  tile->repeat = (std::min(phase.cols, s_.w - reach) - x) / tile->kernel->pixels;
  tile->x = state->offsets[static_cast<size_t>(tile->table)];
  tile->y = state->offsets[static_cast<size_t>(tile->table + tile->kernel->pixels)];
  state->offsets.resize(static_cast<size_t>(tile->table));
  tile->table = -1;
  tile->step = Step::kBlock;
}

// Tiles of neighbouring pixels: of a row (first layer), or of a range of rows of one image (pointwise).
void DirectRun::MakeRowTiles(RowRange rows, int blocks, TaskState* state) const {
  for (int64_t r = rows.begin; r < rows.end;) {
    const int64_t n = r / s_.oh, y = r % s_.oh;
    const int64_t next = first_layer() ? r + 1 : std::min(rows.end, (n + 1) * s_.oh);
    const int64_t count = (next - r) * s_.ow;
    const int64_t x0 =
        first_layer() ? (r - rows.begin) * s_.sh * padded_w_ : (n * in_blocks_ * s_.oh + y) * s_.ow * kC0;
    const int64_t y0 = (n * blocks_ * s_.oh + y) * s_.ow * kC0;
    for (int64_t at = 0; at < count;) {
      TileGeometry& tile = state->tiles.emplace_back();
      tile.kernel = &FindTile(plan_.tier, blocks, count - at);
      tile.pixels = static_cast<int>(std::min<int64_t>(tile.kernel->pixels, count - at));
      // Row tiles read all their pixels: in an image, a partly filled one would leave it at the end.
      if (!first_layer() && (!tile.kernel->For(Step::kBlock) || tile.pixels < tile.kernel->pixels)) {
        PlacePixels(plan_.phases[0], rows, r * s_.ow + at, &tile, state);
      } else {
        tile.step = step_;
        tile.x = x0 + at * StepFloats(step_);
        tile.y = y0 + at * kC0;
        tile.repeat = std::max<int64_t>(1, (count - at) / tile.kernel->pixels);
      }
      at += tile.pixels * tile.repeat;
    }
    r = next;
  }
}

void DirectRun::PlacePixels(const Phase& phase, const RowRange& rows, int64_t first, TileGeometry* tile,
                            TaskState* state) const {
  int64_t x = first % phase.cols, y = first / phase.cols % phase.rows, n = first / phase.cols / phase.rows;
  int64_t ys[kMaxPixels], xs[kMaxPixels];
  const int in_tile = tile->kernel->pixels;
  tile->table = static_cast<int64_t>(state->offsets.size());
  state->offsets.resize(state->offsets.size() + 2 * static_cast<size_t>(in_tile));
  int64_t* pixel_offset = state->offsets.data() + tile->table;
  int64_t* out_offset = pixel_offset + in_tile;
  for (int p = 0; p < tile->pixels; ++p) {
    ys[p] = y * plan_.in_step_h;
    xs[p] = x * plan_.in_step_w;
    if (first_layer()) {
      pixel_offset[p] = (y - rows.begin % s_.oh) * s_.sh * padded_w_ + xs[p];
    } else {
      pixel_offset[p] = (n * in_blocks_ * s_.h * s_.w + ys[p] * s_.w + xs[p]) * kC0;
    }
    const int64_t oy = y * plan_.out_step_h, ox = x * plan_.out_step_w;
    out_offset[p] = ((n * blocks_ * s_.oh + oy) * s_.ow + ox) * kC0;  // of phase (0, 0)
    if (++x == phase.cols) {
      x = 0;
      if (++y == phase.rows) y = 0, ++n;
    }
  }
  for (int p = tile->pixels; p < tile->kernel->pixels; ++p) {
    pixel_offset[p] = pixel_offset[0];
    out_offset[p] = out_offset[0];
    ys[p] = ys[0], xs[p] = xs[0];
  }
  const bool strided = plan_.in_step_w == 2 && tile->kernel->For(Step::kTable2);
  if (strided) tile->step = Step::kTable2;
  tile->in_row = (plan_.in_step_w == 1 || strided) && tile->pixels == in_tile &&
                 first % phase.cols + in_tile <= phase.cols;
  if (first_layer() || plan_.variant == Variant::kPointwise) return;
  if (phase.taps.empty()) return;
  const Tap &one = phase.taps.front(), &other = phase.taps.back();  // the extreme taps, in either order
  const auto [ylo, yhi] = std::minmax_element(ys, ys + in_tile);
  const auto [xlo, xhi] = std::minmax_element(xs, xs + in_tile);
  const bool inside = *ylo + std::min(one.dy, other.dy) >= 0 && *yhi + std::max(one.dy, other.dy) < s_.h &&
                      *xlo + std::min(one.dx, other.dx) >= 0 && *xhi + std::max(one.dx, other.dx) < s_.w;
  if (!inside) MakeMasks(phase, ys, xs, tile, state);
}

// Which pixels lie inside the image at each tap. The taps of a phase are all pairs of some rows and some
// columns.
void DirectRun::MakeMasks(const Phase& phase, const int64_t* ys, const int64_t* xs, TileGeometry* tile,
                          TaskState* state) const {
  const int pixels = tile->kernel->pixels;
  const auto mask_of = [pixels](const int64_t* at, int64_t d, int64_t size) {
    uint32_t mask = pixels < 32 ? ~0u << pixels : 0;
    for (int p = 0; p < pixels; ++p)
      mask |= uint32_t{static_cast<uint64_t>(at[p] + d) < static_cast<uint64_t>(size)} << p;
    return mask;
  };
  size_t columns = 0;
  state->column_masks.clear();
  for (; columns < phase.taps.size() && phase.taps[columns].dy == phase.taps[0].dy; ++columns) {
    state->column_masks.push_back(mask_of(xs, phase.taps[columns].dx, s_.w));
  }
  const size_t first = state->masks.size();
  uint32_t all = ~0u, row = 0;
  for (size_t i = 0; i < phase.taps.size(); ++i) {
    if (i % columns == 0) row = mask_of(ys, phase.taps[i].dy, s_.h);
    state->masks.push_back(row & state->column_masks[i % columns]);
    all &= state->masks.back();
  }
  if (all == ~0u) {
    state->masks.resize(first);
  } else {
    tile->masks = static_cast<int64_t>(first);
  }
}

void DirectRun::RunTile(const TileGeometry& tile, const TaskState& state, size_t phase, const OcGroup& g,
                        const float* x, const float* next, int64_t next_floats) const {
  const std::vector<Segment>& segments = segments_[SegmentClass(g) * plan_.phases.size() + phase];
  TileArgs t;
  t.x = x + tile.x + (first_layer() ? 0 : g.c_begin / kC0 * s_.h * s_.w * kC0);
  if (tile.table >= 0) {
    t.pixel_offset = state.offsets.data() + tile.table;
    t.out_offset = t.pixel_offset + tile.kernel->pixels;
  }
  t.segments = segments.data();
  t.num_segments = static_cast<int64_t>(segments.size());
  t.masks = tile.masks < 0 ? nullptr : state.masks.data() + tile.masks;
  t.weights = args_.weights + g.weight_offset[phase];
  t.bias = ops_.bias ? ops_.bias + g.block * kC0 : nullptr;
  t.block_stride = s_.oh * s_.ow * kC0;
  const Phase& grid = plan_.phases[phase];
  const int64_t out = g.block * t.block_stride + tile.y + (grid.py * s_.ow + grid.px) * kC0;
  t.y = ops_.y + out;
  t.residual = args_.residual ? args_.residual + out : nullptr;
  t.pixels = tile.pixels;
  t.repeat = tile.repeat;
  t.lane_begin = g.lane_begin;
  t.lane_end = g.lane_end;
  t.post = &post_;
  if (next) {
    constexpr int64_t kLine = 64;
    t.prefetch = reinterpret_cast<const char*>(next);
    t.prefetch_bytes =
        CeilDiv(CeilDiv(next_floats * static_cast<int64_t>(sizeof(float)), t.num_segments * t.repeat),
                kLine) *
        kLine;
  }
  t.in_row = tile.in_row;
  tile.kernel->For(tile.step)(t);
  if (!IsRegisterAct(post_.act)) ActOnTile(t, g.blocks);
}

void DirectRun::Finish(RowRange rows, size_t group_begin, size_t group_end) const {
  if (group_begin == group_end) return;
  const int64_t b0 = plan_.oc_groups[group_begin].block;
  const OcGroup& last = plan_.oc_groups[group_end - 1];
  for (int64_t r = rows.begin; r < rows.end;) {
    const int64_t n = r / rows_, end = std::min(rows.end, (n + 1) * rows_);
    FinishRows(plan_, args_, ops_.y, n, b0, last.block + last.blocks, (r - n * rows_) * plan_.out_step_h,
               std::min((end - n * rows_) * plan_.out_step_h, s_.oh));
    r = end;
  }
}

}  // namespace

const TileKernel& FindTile(isa::Tier tier, int blocks, int64_t pixels) {
  const TileKernel* best = nullptr;
  for (const TileKernel& k : TileList(tier)) {
    if (k.blocks != blocks) continue;
    best = &k;
    if (k.pixels >= pixels) break;
  }
  assert(best);
  return *best;
}

int MaxBlocks(isa::Tier tier) {
  int most = 1;
  for (const TileKernel& k : TileList(tier)) most = std::max(most, k.blocks);
  return most;
}

void RunDirect(const ConvPlan& plan, const ConvArgs& args) { DirectRun(plan, args).Run(); }

}  // namespace opsnn::conv
