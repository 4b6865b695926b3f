// Driver of the Winograd convolution. The points of some tile rows are kept together: V[point][block of input
// channels][tile][lane], M[point][block of output channels][tile][lane], each point a small image that the
// tiles of the direct convolution multiply as a pointwise one.
#include "kernels/conv/winograd.h"

#include <algorithm>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "base/work_range.h"
#include "kernels/conv/act_pass.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/tile.h"

namespace opsnn::conv {
namespace {

class WinogradRun {
 public:
  WinogradRun(const ConvPlan& plan, const ConvArgs& args)
      : plan_(plan), s_(plan.shape), args_(args), ops_(PrepareOperands(plan, args)), post_(args.post()) {
    const int64_t weights = points_ * s_.c * blocks_ * kC0 * static_cast<int64_t>(sizeof(float));
    const int64_t row_bytes =
        points_ * tiles_w_ * (in_blocks_ + blocks_) * kC0 * static_cast<int64_t>(sizeof(float));
    const int64_t budget = WinogradChunkBytes(weights);
    chunk_rows_ = std::clamp<int64_t>(budget / row_bytes, 1, s_.n * tiles_h_);
    chunk_cols_ = CeilDiv(tiles_w_, CeilDiv(row_bytes, budget));
    for (int64_t c = 0; c < s_.c; c += kC0)
      segments_.push_back(
          {c / kC0 * ChunkTiles() * kC0, 0, static_cast<int32_t>(std::min<int64_t>(kC0, s_.c - c))});
  }
  void Run();

 private:
  // Tile rows [begin, end), counted through all images, and of each the columns [left, right); several rows
  // only if whole.
  struct Chunk {
    int64_t begin = 0, end = 0, left = 0, right = 0;
    float* v = nullptr;
    float* m = nullptr;
  };
  // Room for the tiles of a chunk and the spare pixels of the last register tile.
  int64_t ChunkTiles() const { return chunk_rows_ * chunk_cols_ + kMaxPixels; }
  bool Memory(Chunk* chunk) const;
  bool WholeRows() const { return chunk_cols_ == tiles_w_; }
  void In(const Chunk& chunk, int64_t block) const;
  void Multiply(const Chunk& chunk, int64_t first,
                int64_t last) const;  // of (point, group), points outermost
  void Out(const Chunk& chunk, int64_t block) const;
  void FinishTileRows(int64_t begin, int64_t end, int64_t block) const;
  void FindPlainTiles();
  bool SpansTooMuch(int64_t row, int64_t t) const;

  const ConvPlan& plan_;
  const ConvShape& s_;
  const ConvArgs& args_;
  const Operands ops_;
  const Post post_;
  const int m_ = s_.winograd, r_ = static_cast<int>(s_.kh), n_ = WinogradTileSide(s_, m_);
  const int64_t points_ = int64_t{n_} * n_;
  const int64_t in_blocks_ = CeilDiv(s_.c, kC0), blocks_ = CeilDiv(s_.oc, kC0);
  const int64_t tiles_h_ = CeilDiv(s_.oh, m_), tiles_w_ = CeilDiv(s_.ow, m_);
  int64_t chunk_rows_ = 1, chunk_cols_ = 1;
  std::vector<Segment> segments_;
  const float* magnitudes_ = nullptr;     // [image][pixel]: largest |x| over the channels
  const uint8_t* plain_tiles_ = nullptr;  // [tile row of all images][tile]
};

bool WinogradRun::Memory(Chunk* chunk) const {
  const int64_t block = points_ * ChunkTiles() * kC0;
  chunk->v =
      static_cast<float*>(ThreadScratch(static_cast<size_t>(block * (in_blocks_ + blocks_)) * sizeof(float)));
  chunk->m = chunk->v + block * in_blocks_;
  return chunk->v != nullptr;
}

void WinogradRun::In(const Chunk& chunk, int64_t block) const {
  const int64_t tiles = ChunkTiles();
  WinogradInput in;
  in.h = s_.h, in.w = s_.w;
  in.point_stride = in_blocks_ * tiles * kC0;
  in.v = chunk.v + block * tiles * kC0;
  for (int64_t row = chunk.begin; row < chunk.end; ++row) {
    in.x = ops_.x + (row / tiles_h_ * in_blocks_ + block) * s_.h * s_.w * kC0;
    in.top = row % tiles_h_ * m_ - s_.pt;
    for (int64_t t = chunk.left; t < chunk.right; ++t, in.v += kC0) {
      in.left = t * m_ - s_.pl;
      TransformInput(n_, in);
    }
  }
}

void WinogradRun::Multiply(const Chunk& chunk, int64_t first, int64_t last) const {
  const int64_t groups = static_cast<int64_t>(plan_.oc_groups.size());
  const int64_t tiles = ChunkTiles(), used = (chunk.end - chunk.begin) * (chunk.right - chunk.left);
  const Post none;
  TileArgs t;
  t.segments = segments_.data();
  t.num_segments = static_cast<int64_t>(segments_.size());
  t.block_stride = tiles * kC0;
  t.lane_end = kC0;
  t.post = &none;
  for (int64_t i = first; i < last; ++i) {
    const int64_t point = i / groups;
    const OcGroup& g = plan_.oc_groups[static_cast<size_t>(i % groups)];
    t.weights = args_.weights + g.weight_offset[static_cast<size_t>(point)];
    const float* const v = chunk.v + point * in_blocks_ * tiles * kC0;
    float* const m = chunk.m + (point * blocks_ + g.block) * tiles * kC0;
    const int64_t bytes = s_.c * g.blocks * kC0 * static_cast<int64_t>(sizeof(float));
    t.prefetch_bytes = 0;
    for (int64_t at = 0; at < used;) {
      const TileKernel& k = FindRowTile(plan_.tier, g.blocks, used - at);
      t.pixels = k.pixels;  // behind the last tile there is room for the spare ones
      t.repeat = std::max<int64_t>(1, (used - at) / k.pixels);
      t.x = v + at * kC0;
      t.y = m + at * kC0;
      if (i + 1 < last) {  // the weights after these
        constexpr int64_t kLine = 64;
        t.prefetch = reinterpret_cast<const char*>(t.weights) + bytes + bytes * at / used;
        t.prefetch_bytes = CeilDiv(CeilDiv(bytes * k.pixels, used * t.num_segments), kLine) * kLine;
      }
      k.For(Step::kBlock)(t);
      at += k.pixels * t.repeat;
    }
  }
}

void WinogradRun::Out(const Chunk& chunk, int64_t block) const {
  const int64_t tiles = ChunkTiles();
  WinogradOutput out;
  out.point_stride = blocks_ * tiles * kC0;
  out.v = chunk.m + block * tiles * kC0;
  out.bias = ops_.bias ? ops_.bias + block * kC0 : nullptr;
  out.row_stride = s_.ow * kC0;
  out.post = &post_;
  out.sums.plane = s_.h * s_.w * kC0;
  out.sums.channels = s_.c, out.sums.h = s_.h, out.sums.w = s_.w;
  out.sums.weights = args_.weights + plan_.packed_floats - (blocks_ - block) * kC0 * s_.c * s_.taps();
  for (int64_t row = chunk.begin; row < chunk.end; ++row) {
    const int64_t image = row / tiles_h_, oy = row % tiles_h_ * m_;
    out.rows = static_cast<int>(std::min<int64_t>(m_, s_.oh - oy));
    out.sums.x = ops_.x + image * in_blocks_ * out.sums.plane;
    out.sums.top = oy - s_.pt;
    for (int64_t t = chunk.left; t < chunk.right; ++t, out.v += kC0) {
      const int64_t ox = t * m_;
      out.cols = static_cast<int>(std::min<int64_t>(m_, s_.ow - ox));
      out.sums.left = ox - s_.pl;
      out.plain = plain_tiles_[row * tiles_w_ + t] != 0;
      const int64_t at = (((image * blocks_ + block) * s_.oh + oy) * s_.ow + ox) * kC0;
      out.y = ops_.y + at;
      out.residual = args_.residual ? args_.residual + at : nullptr;
      TransformOutput(m_, r_, out);
      if (IsRegisterAct(post_.act)) continue;
      for (int r = 0; r < out.rows; ++r) PostPass(post_, out.y + r * out.row_stride, int64_t{out.cols} * kC0);
    }
  }
  if (WholeRows()) FinishTileRows(chunk.begin, chunk.end, block);
}

void WinogradRun::FinishTileRows(int64_t begin, int64_t end, int64_t block) const {
  for (int64_t row = begin; row < end;) {
    const int64_t image = row / tiles_h_, stop = std::min(end, (image + 1) * tiles_h_);
    FinishRows(plan_, args_, ops_.y, image, block, block + 1, (row - image * tiles_h_) * m_,
               std::min((stop - image * tiles_h_) * m_, s_.oh));
    row = stop;
  }
}

// Does an output of this tile see only values far below the tile's largest?
bool WinogradRun::SpansTooMuch(int64_t row, int64_t t) const {
  const float* const image = magnitudes_ + row / tiles_h_ * s_.h * s_.w;
  const int64_t top = row % tiles_h_ * m_ - s_.pt, left = t * m_ - s_.pl;
  float at[36], across[36], most = 0;  // of the pixels, and of a kernel's width of them in a row
  for (int r = 0; r < n_; ++r)
    for (int c = 0; c < n_; ++c) {
      const int64_t y = top + r, x = left + c;
      const bool inside = y >= 0 && y < s_.h && x >= 0 && x < s_.w;
      at[r * n_ + c] = inside ? image[y * s_.w + x] : 0.0f;
      most = std::max(most, at[r * n_ + c]);
    }
  const float least = most / kWinogradRange;
  const auto largest = [this](const float* v, int step) {
    float m = v[0];
    for (int k = 1; k < r_; ++k) m = std::max(m, v[k * step]);
    return m;
  };
  for (int r = 0; r < n_; ++r)
    for (int c = 0; c < m_; ++c) across[r * n_ + c] = largest(at + r * n_ + c, 1);
  const int64_t rows = std::min<int64_t>(m_, s_.oh - row % tiles_h_ * m_),
                cols = std::min<int64_t>(m_, s_.ow - t * m_);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c)
      if (largest(across + r * n_ + c, n_) < least) return true;
  return false;
}

void WinogradRun::FindPlainTiles() {
  auto* const memory = static_cast<float*>(args_.workspace) + plan_.magnitudes_offset;
  magnitudes_ = memory;
  auto* const plain = reinterpret_cast<uint8_t*>(memory + s_.n * s_.h * s_.w);
  plain_tiles_ = plain;
  ParallelOwned(s_.n * s_.h, [&](int64_t row) {
    const int64_t plane = s_.h * s_.w * kC0;
    PixelMagnitudes(ops_.x + row / s_.h * in_blocks_ * plane + row % s_.h * s_.w * kC0, plane, s_.c, s_.w,
                    memory + row * s_.w);
  });
  ParallelOwned(s_.n * tiles_h_, [&](int64_t row) {
    for (int64_t t = 0; t < tiles_w_; ++t) plain[row * tiles_w_ + t] = SpansTooMuch(row, t);
  });
}

void WinogradRun::Run() {
  FindPlainTiles();
  const int64_t rows = s_.n * tiles_h_, per_row = CeilDiv(tiles_w_, chunk_cols_);
  const int64_t chunks = CeilDiv(rows, chunk_rows_) * per_row;
  const int64_t work = points_ * static_cast<int64_t>(plan_.oc_groups.size());
  const int threads = ThreadsAvailable();
  const auto bounds = [&](int64_t i) {
    const int64_t row = i / per_row * chunk_rows_, left = i % per_row * chunk_cols_;
    return Chunk{row, std::min(row + chunk_rows_, rows), left, std::min(left + chunk_cols_, tiles_w_)};
  };
  // A chunk of one's own needs no other thread's values and no joins; two each keep the threads even enough.
  constexpr int64_t kOwnChunks = 2;
  if (threads == 1 || chunks >= threads * kOwnChunks) {
    ParallelOwned(chunks, [&](int64_t i) {
      Chunk chunk = bounds(i);
      if (!Memory(&chunk)) return;
      for (int64_t b = 0; b < in_blocks_; ++b) In(chunk, b);
      Multiply(chunk, 0, work);
      for (int64_t b = 0; b < blocks_; ++b) Out(chunk, b);
    });
  } else {  // few chunks: the threads share each, so that every weight is read by one of them
    for (int64_t i = 0; i < chunks; ++i) {
      Chunk chunk = bounds(i);
      if (!Memory(&chunk)) return;
      ParallelOwned(in_blocks_, [&](int64_t b) { In(chunk, b); });
      const int64_t parts = std::min<int64_t>(work, threads * kTasksPerThread);
      ParallelOwned(parts, [&](int64_t p) { Multiply(chunk, work * p / parts, work * (p + 1) / parts); });
      ParallelOwned(blocks_, [&](int64_t b) { Out(chunk, b); });
    }
  }
  if (!WholeRows()) ParallelOwned(blocks_, [&](int64_t b) { FinishTileRows(0, rows, b); });
}

}  // namespace

void RunWinograd(const ConvPlan& plan, const ConvArgs& args) { WinogradRun(plan, args).Run(); }

}  // namespace opsnn::conv
