// Driver of the direct convolution: cuts the output into chunks of rows, rows into register tiles.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/int_math.h"
#include "base/parallel.h"
#include "base/work_range.h"
#include "isa/caches.h"
#include "kernels/conv/act_pass.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/segments.h"
#include "kernels/conv/tile.h"
#include "kernels/conv/tiling.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kSlack = 2 * kMaxPixels;  // floats that a row tile may read behind a row

// Packed weights up to this size stay in L2 beside a chunk of the input, so that all output groups may visit
// a pixel tile while its input is in L1. Larger weights are walked in the outer loop: each is then read once
// per chunk.
constexpr int64_t kResidentWeightBytes = 512 << 10;

// Where output groups are shared out, so many pieces of work per thread keep the threads even.
constexpr int64_t kUnitsPerThread = 8;

// What one task works with; kept by the thread between tasks so that nothing is allocated in the long run.
struct TaskState {
  struct Key {  // what the tiles were made for
    uint64_t run = 0;
    size_t phase = 0;
    RowRange rows;
    int blocks = 0;
    bool operator==(const Key&) const = default;
  } made_for;
  TileSet tiles;
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
      : plan_(plan),
        s_(plan.shape),
        args_(args),
        ops_(PrepareOperands(plan, args)),
        post_(args.post()),
        weights_(args.weights),
        tiling_(plan),
        rows_(tiling_.slices() * tiling_.rows()),
        padded_w_(tiling_.padded_w()) {
    blocks_ = CeilDiv(s_.oc, kC0);
    in_blocks_ = CeilDiv(s_.c, kC0);
    if (first_layer()) {
      row_rounds_ = RowsPerTask(s_.oh, RowBytes(), ThreadsAvailable());
      padded_rows_ = (row_rounds_ - 1) * s_.sh + (s_.kh - 1) * s_.dh + 1;
    }
    shared_phases_ = PhasesAlike();
    MakeSegments();
  }
  void Run();

 private:
  bool first_layer() const { return plan_.variant == Variant::kFirstLayer; }
  bool StreamsWeights() const { return plan_.packed_floats * kFloatBytes > kResidentWeightBytes; }
  int64_t RowsPerChunk(int64_t total_rows, int threads) const {
    return RowsPerTask(total_rows, RowBytes(), threads,
                       StreamsWeights() ? ChunkBytesBesideStream() : kChunkBytes);
  }
  // Bytes of cache that one row of work wants: what it reads and, where weights stay beside it, what it
  // writes. Streamed weights pass over the whole chunk group by group, and output is written but once.
  int64_t RowBytes() const {
    if (first_layer()) return (s_.c * s_.w * s_.sh + blocks_ * kC0 * s_.ow) * kFloatBytes;
    const int64_t in = in_blocks_ * kC0 * s_.w * plan_.in_step_d * plan_.in_step_h;
    const int64_t out = blocks_ * kC0 * s_.ow * plan_.out_step_d * plan_.out_step_h;
    if (!StreamsWeights()) return (in + out) * kFloatBytes;
    // Strides beyond the kernel skip slices, rows and columns.
    return in * std::min(s_.kd, s_.sd) * std::min(s_.kh, s_.sh) * std::min(s_.kw, s_.sw) /
           (s_.sd * s_.sh * s_.sw) * kFloatBytes;
  }
  // Do all phases read the same input pixels for the same position of the grid? So with kernel = stride.
  bool PhasesAlike() const {
    const Phase& a = plan_.phases[0];
    return std::all_of(plan_.phases.begin(), plan_.phases.end(), [&a](const Phase& b) {
      return a.slices == b.slices && a.rows == b.rows && a.cols == b.cols &&
             std::equal(
                 a.taps.begin(), a.taps.end(), b.taps.begin(), b.taps.end(),
                 [](const Tap& s, const Tap& t) { return s.dz == t.dz && s.dy == t.dy && s.dx == t.dx; });
    });
  }
  size_t SegmentClass(const OcGroup& g) const { return plan_.variant == Variant::kGrouped ? g.group : 0; }
  void MakeSegments();
  bool SharesGroups(int threads) const;
  bool PacksInPassing(int threads) const;
  void ShareGroups(int threads) const;
  void PackAndRun(RowRange rows, const OcGroup& g) const;
  bool ResultsFinite(RowRange rows, const OcGroup& g) const;
  void RunTask(RowRange rows, size_t group_begin, size_t group_end) const;
  // Phases [ph0, ph1), which share their tiles, times groups [g0, g1), which have equally many blocks.
  void RunGroups(RowRange rows, size_t ph0, size_t ph1, size_t g0, size_t g1, const float* x) const;
  // Weights to be fetched meanwhile: part `part` of `parts` of a group's, or none.
  struct Ahead {
    const OcGroup* group = nullptr;
    int64_t part = 0, parts = 1;
  };
  // Of one group in one phase. Where one is not finite, products with padding are left out.
  struct GroupWeights {
    const float* data = nullptr;
    bool finite = true;
  };
  // One group in some rows; `weights` are its own.
  void RunGroup(const TileSet& set, size_t phase, const OcGroup& g, const GroupWeights& weights,
                const float* x, const Ahead& ahead) const;
  GroupWeights Weights(size_t phase, const OcGroup& g) const {
    return {weights_ + g.weight_offset[phase], FiniteWeights(plan_, weights_)};
  }
  int64_t GroupFloats(size_t phase, const OcGroup& g) const;
  const TileSet& Tiles(size_t phase, RowRange rows, int blocks) const;
  const float* CopyPadded(RowRange rows) const;
  int64_t CopyFloats() const { return s_.c * padded_rows_ * padded_w_ + kSlack; }
  // `weights`: of the group in this phase; `next`, `next_floats`: weights to be fetched meanwhile.
  void RunTile(const TileGeometry& tile, const TileSet& set, size_t phase, const OcGroup& g,
               const GroupWeights& weights, const float* x, const float* next = nullptr,
               int64_t next_floats = 0) const;
  void FinishGrid(int64_t n, int64_t b0, int64_t b1, int64_t begin, int64_t end) const;
  void Finish(RowRange rows, size_t group_begin, size_t group_end) const;

  const uint64_t run_ = NextRun();
  const ConvPlan& plan_;
  const ConvShape& s_;
  const ConvArgs& args_;
  Operands ops_;
  const Post post_;
  const float* weights_;  // packed; null where groups are packed in passing
  const Tiling tiling_;
  const int64_t rows_;  // of all slices of an image, in the longest phase
  int64_t blocks_ = 0, in_blocks_ = 0;
  bool shared_phases_ = false;
  // First layer: a padded copy of the input rows under a task, [channel][row][padded_w_].
  const int64_t padded_w_;
  int64_t padded_rows_ = 0, row_rounds_ = 0;
  std::vector<std::vector<Segment>> segments_;  // [class * phases + phase]
};

void DirectRun::MakeSegments() {
  const int64_t plane = s_.plane() * kC0;
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
        const int64_t offset = first_layer() ? (c * padded_rows_ + t.ky * s_.dh) * padded_w_ + t.kx
                                             : (c - c_base) / kC0 * plane + c % kC0 +
                                                   ((int64_t{t.dz} * s_.h + t.dy) * s_.w + t.dx) * kC0;
        list.push_back({offset, tap, len});
      });
    }
  }
}

// Threads that share out rows all read every weight, once per task where the weights do not stay in L2;
// threads that share out output groups all read the whole input, and the layer behind, which shares out rows,
// finds the result by groups: half of both then comes from the caches of other cores. So the smaller of
// weights and images crosses. Groups also keep the tiles of small images whole. Many rows give every thread
// chunks of its own, in which it reads each weight once either way.
bool DirectRun::SharesGroups(int threads) const {
  constexpr int64_t kChunksPerThread = 3;
  if (threads == 1 || first_layer() || plan_.variant == Variant::kGrouped) return false;
  if (static_cast<int64_t>(plan_.oc_groups.size()) < threads) return false;
  const int64_t rows = s_.n * rows_;
  if (CeilDiv(rows, RowsPerChunk(rows, 1)) >= kChunksPerThread * threads) return false;
  return plan_.packed_floats > s_.n * kC0 * (in_blocks_ * s_.plane() + blocks_ * s_.out_plane());
}

// Plain weights that would not stay in L2, each used by one thread for one chunk: a group at a time is packed
// there and used at once, so that memory is read once and never written.
bool DirectRun::PacksInPassing(int threads) const {
  if (first_layer() || plan_.variant == Variant::kGrouped || plan_.phases.size() != 1) return false;
  if (!StreamsWeights()) return false;
  if (threads > 1 && static_cast<int64_t>(plan_.oc_groups.size()) < kUnitsPerThread * threads) return false;
  const int64_t rows = s_.n * rows_;
  return RowsPerChunk(rows, 1) >= rows;
}

void DirectRun::Run() {
  const int64_t total_rows = first_layer() ? s_.oh : s_.n * rows_;
  const int64_t groups = static_cast<int64_t>(plan_.oc_groups.size());
  const int threads = ThreadsAvailable();
  if (args_.plain_weights) {
    if (PacksInPassing(threads)) return ShareGroups(threads);
    PackWeights(plan_, args_.plain_weights, args_.packing);
    weights_ = args_.packing;
  }
  if (SharesGroups(threads)) return ShareGroups(threads);
  const int64_t per_task = first_layer() ? row_rounds_ : RowsPerChunk(total_rows, threads);
  const int64_t chunks = EvenChunks(total_rows, per_task, threads);
  const int64_t row_tasks = chunks * (first_layer() ? s_.n : 1);
  // Few rows (small images): also split the output groups.
  int64_t splits = 1;
  if (threads > 1 && plan_.variant != Variant::kGrouped)
    splits = std::min(groups, CeilDiv(threads * kTasksPerThread, row_tasks));
  ParallelOwned(row_tasks * splits, [&](int64_t i) {
    const int64_t task = i / splits, part = i % splits;
    const int64_t image_base = first_layer() ? task / chunks * s_.oh : 0;
    const int64_t chunk = first_layer() ? task % chunks : task;
    const RowRange rows{image_base + total_rows * chunk / chunks,
                        image_base + total_rows * (chunk + 1) / chunks};
    RunTask(rows, static_cast<size_t>(groups * part / splits),
            static_cast<size_t>(groups * (part + 1) / splits));
  });
}

// Every thread owns a range of output groups, so that it knows which weights it needs next and can have them
// fetched; one that is done helps at the far end of the other ranges. Few groups are cut by rows as well:
// what cannot be shared evenly is then a part of a group.
void DirectRun::ShareGroups(int threads) const {
  const int64_t total_rows = s_.n * rows_, per_chunk = RowsPerChunk(total_rows, 1);
  const int64_t groups = static_cast<int64_t>(plan_.oc_groups.size());
  for (int64_t row = 0; row < total_rows; row += per_chunk) {  // stays in L2 while all groups pass over it
    const int64_t count = std::min(per_chunk, total_rows - row);
    // Where groups cannot be shared evenly, as many parts as there are threads can.
    const int64_t wanted = groups % threads == 0
                               ? CeilDiv(kUnitsPerThread * threads, groups)
                               : RoundUp(CeilDiv(kUnitsPerThread * threads, groups), threads);
    const int64_t parts = weights_ ? std::clamp<int64_t>(wanted, 1, count) : 1;
    ParallelOwned(groups * parts, [&](int64_t unit) {
      const auto g = static_cast<size_t>(unit / parts);
      const int64_t part = unit % parts;
      const RowRange rows{row + count * part / parts, row + count * (part + 1) / parts};
      const OcGroup& group = plan_.oc_groups[g];
      if (!weights_) {
        PackAndRun(rows, group);
      } else {
        Ahead ahead;
        if (g + 1 < plan_.oc_groups.size()) ahead = {&plan_.oc_groups[g + 1], part, parts};
        for (size_t ph = 0; ph < plan_.phases.size(); ++ph)
          RunGroup(Tiles(ph, rows, group.blocks), ph, group, Weights(ph, group), ops_.x, ahead);
      }
      Finish(rows, g, g + 1);
    });
  }
}

void DirectRun::PackAndRun(RowRange rows, const OcGroup& g) const {
  float* const packed =
      static_cast<float*>(ThreadScratch(static_cast<size_t>(GroupFloats(0, g)) * sizeof(float)));
  if (!packed) return;
  // Weights that are not finite and meet padding show in the results, which are far fewer, as NaN; unless
  // what a second run would add to is overwritten by then.
  const bool asks = plan_.finite_offset >= 0, looks_first = asks && args_.residual != nullptr;
  bool finite = true;
  PackOcGroup(plan_, g, args_.plain_weights, packed, looks_first ? &finite : nullptr);
  RunGroup(Tiles(0, rows, g.blocks), 0, g, {packed, finite}, ops_.x, {});
  if (asks && !looks_first && !ResultsFinite(rows, g))
    RunGroup(Tiles(0, rows, g.blocks), 0, g, {packed, false}, ops_.x, {});
}

// Of a group in one phase, as stored so far.
bool DirectRun::ResultsFinite(RowRange rows, const OcGroup& g) const {
  const int64_t row = s_.ow * kC0, plane = s_.out_plane() * kC0;
  for (int64_t r = rows.begin; r < rows.end;) {
    const int64_t n = r / rows_, stop = std::min(rows.end, (n + 1) * rows_);
    for (int64_t b = g.block; b < g.block + g.blocks; ++b)
      if (!AllFinite(ops_.y + (n * blocks_ + b) * plane + (r - n * rows_) * row, (stop - r) * row))
        return false;
    r = stop;
  }
  return true;
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
  const TileSet& set = Tiles(ph0, rows, first.blocks);
  const int64_t group_floats = GroupFloats(ph0, first);
  const int64_t weight_bytes = group_floats * static_cast<int64_t>((g1 - g0) * (ph1 - ph0) * sizeof(float));
  if (weight_bytes <= kResidentWeightBytes) {
    for (const TileGeometry& tile : set.tiles)
      for (size_t ph = ph0; ph < ph1; ++ph)
        for (size_t g = g0; g < g1; ++g)
          RunTile(tile, set, ph, plan_.oc_groups[g], Weights(ph, plan_.oc_groups[g]), x);
    return;
  }
  for (size_t ph = ph0; ph < ph1; ++ph)
    for (size_t g = g0; g < g1; ++g)
      RunGroup(set, ph, plan_.oc_groups[g], Weights(ph, plan_.oc_groups[g]), x,
               {g + 1 < g1 ? &plan_.oc_groups[g + 1] : nullptr, 0, 1});
}

int64_t DirectRun::GroupFloats(size_t phase, const OcGroup& g) const {
  return (g.c_end - g.c_begin) * static_cast<int64_t>(plan_.phases[phase].taps.size()) * g.blocks * kC0;
}

const TileSet& DirectRun::Tiles(size_t phase, RowRange rows, int blocks) const {
  thread_local TaskState state;
  const TaskState::Key key{run_, phase, rows, blocks};
  if (state.made_for != key) {
    tiling_.Make(plan_.phases[phase], rows, blocks, &state.tiles);
    state.made_for = key;
  }
  return state.tiles;
}

void DirectRun::RunGroup(const TileSet& set, size_t phase, const OcGroup& g, const GroupWeights& weights,
                         const float* x, const Ahead& ahead) const {
  int64_t num_tiles = 0;
  for (const TileGeometry& tile : set.tiles) num_tiles += tile.repeat;
  // Each tile asks for its share of the weights to come, which arrive from memory once. What there is no room
  // for in L2 beside these weights waits for the last tile, behind which they are not needed any more.
  const float* next = nullptr;
  int64_t next_floats = 0, early = 0;
  if (ahead.group) {
    const int64_t all = GroupFloats(phase, *ahead.group), from = all * ahead.part / ahead.parts;
    next = Weights(phase, *ahead.group).data + from;
    next_floats = all * (ahead.part + 1) / ahead.parts - from;
    const int64_t room = isa::HostCaches().l2 * 7 / 8 / kFloatBytes - GroupFloats(phase, g);
    early = std::clamp<int64_t>(room, 0, next_floats);
  }
  const auto asked = [&](int64_t tiles) {  // for behind so many tiles
    return tiles < num_tiles ? std::min(next_floats * tiles / num_tiles,
                                        early * tiles / std::max<int64_t>(1, num_tiles - 1))
                             : next_floats;
  };
  int64_t done = 0;
  for (const TileGeometry& tile : set.tiles) {
    const int64_t share = next ? asked(done + tile.repeat) - asked(done) : 0;
    RunTile(tile, set, phase, g, weights, x, next, share);
    if (next) next += share;
    done += tile.repeat;
  }
}

// Copies the input rows under `rows` (of one image) with their padding written out. Behind the last row there
// is room for what the unused pixels of a tile read. Where weights are not finite, CopyFloats further on lies
// what is nonzero inside the image. Null when there is no memory.
const float* DirectRun::CopyPadded(RowRange rows) const {
  const bool marks = !FiniteWeights(plan_, weights_);
  float* dst =
      static_cast<float*>(ThreadScratch(static_cast<size_t>((marks ? 2 : 1) * CopyFloats()) * sizeof(float)));
  if (!dst) return nullptr;
  std::fill_n(dst + s_.c * padded_rows_ * padded_w_, kSlack, 0.0f);
  if (marks) std::fill_n(dst + CopyFloats(), CopyFloats(), 0.0f);
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
      if (marks) std::fill(row + CopyFloats() + x0, row + CopyFloats() + x1, 1.0f);
    }
  }
  return dst;
}

void DirectRun::RunTile(const TileGeometry& tile, const TileSet& set, size_t phase, const OcGroup& g,
                        const GroupWeights& weights, const float* x, const float* next,
                        int64_t next_floats) const {
  const std::vector<Segment>& segments = segments_[SegmentClass(g) * plan_.phases.size() + phase];
  TileArgs t;
  t.x = x + tile.x + (first_layer() ? 0 : g.c_begin / kC0 * s_.plane() * kC0);
  if (tile.table >= 0) {
    t.pixel_offset = set.offsets.data() + tile.table;
    t.out_offset = t.pixel_offset + tile.kernel->pixels;
  }
  t.segments = segments.data();
  t.num_segments = static_cast<int64_t>(segments.size());
  t.masks = tile.masks < 0 ? nullptr : set.masks.data() + tile.masks;
  t.weights = weights.data;
  if (!s_.flat() && t.num_segments > 0) {
    const std::vector<Tap>& taps = plan_.phases[phase].taps;
    const int64_t slices = static_cast<int64_t>(taps.size()) / TapsInSlice(plan_.phases[phase]);
    const int64_t per_slice = t.num_segments / slices;
    t.segments += tile.slice_begin * per_slice;
    t.num_segments = (tile.slice_end - tile.slice_begin) * per_slice;
    t.weights += tile.slice_begin * (GroupFloats(phase, g) / slices);
  }
  t.bias = ops_.bias ? ops_.bias + g.block * kC0 : nullptr;
  t.block_stride = s_.out_plane() * kC0;
  const Phase& grid = plan_.phases[phase];
  const int64_t out =
      g.block * t.block_stride + tile.y + ((grid.pz * s_.oh + grid.py) * s_.ow + grid.px) * kC0;
  t.y = ops_.y + out;
  t.residual = args_.residual ? args_.residual + out : nullptr;
  t.pixels = tile.pixels;
  t.repeat = tile.repeat;
  t.lane_begin = g.lane_begin;
  t.lane_end = g.lane_end;
  t.post = &post_;
  if (next && t.num_segments > 0) {  // phases between the taps have none
    constexpr int64_t kLine = 64;
    t.prefetch = reinterpret_cast<const char*>(next);
    t.prefetch_bytes =
        CeilDiv(CeilDiv(next_floats * static_cast<int64_t>(sizeof(float)), t.num_segments * t.repeat),
                kLine) *
        kLine;
  }
  t.in_row = tile.in_row;
  t.skips = tile.skips;
  if (weights.finite || (t.masks == nullptr && !first_layer())) {
    tile.kernel->For(tile.step)(t);
  } else {
    SkippingTile(t, g.blocks, tile.step == Step::kTwo ? 2 : 1, first_layer() ? CopyFloats() : 0);
  }
  if (!IsRegisterAct(post_.act)) ActOnTile(t, g.blocks);
}

// Rows [begin, end) of the phase grid of image n, blocks [b0, b1).
void DirectRun::FinishGrid(int64_t n, int64_t b0, int64_t b1, int64_t begin, int64_t end) const {
  const int64_t step_d = plan_.out_step_d, step_h = plan_.out_step_h, rows = tiling_.rows();
  if (step_d == 1 && step_h == 1) return FinishRows(plan_, args_, ops_.y, n, b0, b1, begin, end);
  for (int64_t r = begin; r < end;) {  // the grid's slices one by one: their output rows are apart
    const int64_t z = r / rows, stop = std::min(end, (z + 1) * rows);
    const int64_t y0 = (r - z * rows) * step_h, y1 = std::min((stop - z * rows) * step_h, s_.oh);
    for (int64_t oz = z * step_d; oz < std::min((z + 1) * step_d, s_.od); ++oz)
      FinishRows(plan_, args_, ops_.y, n, b0, b1, oz * s_.oh + y0, oz * s_.oh + y1);
    r = stop;
  }
}

void DirectRun::Finish(RowRange rows, size_t group_begin, size_t group_end) const {
  if (group_begin == group_end) return;
  const int64_t b0 = plan_.oc_groups[group_begin].block;
  const OcGroup& last = plan_.oc_groups[group_end - 1];
  for (int64_t r = rows.begin; r < rows.end;) {
    const int64_t n = r / rows_, end = std::min(rows.end, (n + 1) * rows_);
    FinishGrid(n, b0, last.block + last.blocks, r - n * rows_, end - n * rows_);
    r = end;
  }
}

}  // namespace

void RunDirect(const ConvPlan& plan, const ConvArgs& args) { DirectRun(plan, args).Run(); }

}  // namespace opsnn::conv
