#include "kernels/conv/grad/weight_grad_few.h"

#include <algorithm>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/blocked.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/grad/weight_grad_blocks.h"
#include "kernels/conv/grad/weight_grad_tile.h"
#include "kernels/conv/pack.h"
#include "kernels/transpose/tile.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kBlocks = 2;  // output blocks per tile

int64_t FloorDiv(int64_t a, int64_t b) { return a >= 0 ? a / b : -CeilDiv(-a, b); }

// How a copied input row is laid out: sw planes, of which number q holds at j the column
// (first + j) * sw + q, or 0 where there is none.
struct RowLayout {
  explicit RowLayout(const ConvShape& s) {
    const auto at = [&s](int64_t kx) { return FloorDiv(kx * s.dw - s.pl, s.sw); };
    first = at(0);
    plane = s.ow + at(s.kw - 1) - first;
    // An odd number of lines: rows a stride apart then fall into different sets of L1.
    row = (CeilDiv(s.sw * plane, int64_t{kC0}) | 1) * kC0;
    for (int64_t kx = 0; kx < s.kw; ++kx) {
      const int64_t q = kx * s.dw - s.pl - at(kx) * s.sw;
      offsets.push_back(q * plane + at(kx) - first);
    }
  }
  int64_t first = 0, plane = 0, row = 0;
  std::vector<int64_t> offsets;  // by kernel column: where output column 0 finds what it meets
};

void CopyRow(const ConvShape& s, const RowLayout& l, const float* from, float* to) {
  std::fill_n(to, l.row, 0.0f);
  const int64_t begin = std::max<int64_t>(0, -l.first);
  if (begin >= l.plane) return;
  const int64_t column = (l.first + begin) * s.sw,
                whole = std::clamp<int64_t>((s.w - column) / s.sw, 0, l.plane - begin);
  if (whole > 0 && s.sw == 1) std::copy_n(from + column, whole, to + begin);
  if (whole > 0 && s.sw > 1) {
    kernels::Transpose2D(
        {sizeof(float), whole, s.sw, from + column, s.sw * kFloatBytes, to + begin, l.plane * kFloatBytes});
  }
  if (begin + whole >= l.plane) return;
  for (int64_t i = column + whole * s.sw, q = 0; i < s.w && q < s.sw; ++i, ++q)
    to[q * l.plane + begin + whole] = from[i];
}

class FewRun {
 public:
  FewRun(const WeightGradPlan& plan, const float* x, const float* dy, float* dw, float* copies)
      : plan_(plan),
        s_(plan.given),
        layout_(s_),
        tile_(ColumnsTap(plan.tier)),
        x_(x),
        dy_(dy),
        dw_(dw),
        copies_(copies) {
    for (int64_t c = 0; c < s_.c; ++c)
      for (const int64_t offset : layout_.offsets)
        offsets_.push_back(c * plan.chunk_x_rows * layout_.row + offset);
  }
  void Run() const;

 private:
  float* Copy(int64_t channel, int64_t row) const {
    return copies_ + (channel * plan_.chunk_x_rows + row) * layout_.row;
  }
  void Filters(int64_t group, int64_t ky_begin, int64_t ky_end, const GradChunk& chunk) const;
  void Sum(const GradChunk& chunk, int64_t first, int64_t ky_begin, int64_t ky_end, bool skips, float* dy,
           float* sums) const;
  void Columns(const TapArgs& whole, bool skips) const;
  void Rows(const GradChunk& chunk, int64_t row, int64_t end, int64_t ky, bool skips, TapArgs* t) const;
  void Store(int64_t first, int64_t lanes, int64_t ky, bool add, const float* sums) const;

  const WeightGradPlan& plan_;
  const ConvShape& s_;
  const RowLayout layout_;
  const TapFn tile_;
  const float *x_, *dy_;
  float *dw_, *copies_;
  std::vector<int64_t> offsets_;  // by channel, then kernel column
};

void FewRun::Run() const {
  const int64_t total = s_.n * s_.oh, groups = CeilDiv(s_.oc, kBlocks * kC0), threads = ThreadsAvailable();
  const int64_t parts = std::min(s_.kh, CeilDiv(threads, groups));  // few groups are cut by kernel rows too
  for (int64_t row = 0; row < total;) {
    const GradChunk chunk = ChunkAt(s_, row, plan_.chunk_rows);
    const int64_t rows = chunk.x_end - chunk.x_begin;
    ParallelFor(s_.c * rows, [&](int64_t i, int) {
      const int64_t c = i / rows, r = chunk.x_begin + i % rows;
      CopyRow(s_, layout_, x_ + ((r / s_.h * s_.c + c) * s_.h + r % s_.h) * s_.w, Copy(c, i % rows));
    });
    ParallelFor(groups * parts, [&](int64_t i, int) {
      const int64_t part = i % parts;
      Filters(i / parts, s_.kh * part / parts, s_.kh * (part + 1) / parts, chunk);
    });
    row = chunk.end;
  }
}

// The gradients of a group of filters at some kernel rows, from the rows of the chunk.
void FewRun::Filters(int64_t group, int64_t ky_begin, int64_t ky_end, const GradChunk& chunk) const {
  const int64_t first = group * kBlocks * kC0, real = std::min(kBlocks * kC0, s_.oc - first),
                blocks = CeilDiv(real, int64_t{kC0}), lanes = blocks * kC0;
  const int64_t dy_floats = blocks * plan_.run_rows * s_.ow * kC0,
                row_sums = static_cast<int64_t>(offsets_.size()) * lanes,
                sums_floats = (ky_end - ky_begin) * row_sums;
  float* const dy =
      static_cast<float*>(ThreadScratch(static_cast<size_t>((dy_floats + sums_floats) * kFloatBytes)));
  if (!dy) return;
  float* const sums = dy + dy_floats;
  Sum(chunk, first, ky_begin, ky_end, false, dy, sums);
  // Padding took part as zeros: with values of dy that are not finite it must not.
  if (!AllFinite(sums, sums_floats)) Sum(chunk, first, ky_begin, ky_end, true, dy, sums);
  for (int64_t ky = ky_begin; ky < ky_end; ++ky)
    Store(first, lanes, ky, chunk.begin > 0, sums + (ky - ky_begin) * row_sums);
}

// sums[kernel row][channel, kernel column][lane] of the filters from `first` on; `skips`: without padding.
void FewRun::Sum(const GradChunk& chunk, int64_t first, int64_t ky_begin, int64_t ky_end, bool skips,
                 float* dy, float* sums) const {
  const int64_t real = std::min(kBlocks * kC0, s_.oc - first), blocks = CeilDiv(real, int64_t{kC0}),
                lanes = blocks * kC0, row_sums = static_cast<int64_t>(offsets_.size()) * lanes;
  std::fill_n(sums, (ky_end - ky_begin) * row_sums, 0.0f);
  TapArgs t;
  t.dy = dy;
  t.pixels = s_.ow;
  t.x_step = 1;
  t.dy_block = plan_.run_rows * s_.ow * kC0;
  t.channels = static_cast<int>(offsets_.size());
  t.blocks = static_cast<int>(blocks);
  t.sums_stride = lanes;
  t.offsets = offsets_.data();
  for (int64_t row = chunk.begin; row < chunk.end;) {
    const int64_t oy = row % s_.oh, plane = s_.oh * s_.ow;
    const int64_t count = std::min({plan_.run_rows, s_.oh - oy, chunk.end - row});
    for (int64_t b = 0; b < blocks; ++b)
      ToBlocked(dy_ + (row / s_.oh * s_.oc + first + b * kC0) * plane + oy * s_.ow, plane,
                static_cast<int>(std::min<int64_t>(kC0, real - b * kC0)), count * s_.ow, dy + b * t.dy_block);
    for (int64_t ky = ky_begin; ky < ky_end; ++ky) {
      t.sums = sums + (ky - ky_begin) * row_sums;
      Rows(chunk, row, row + count, ky, skips, &t);
    }
    row += count;
  }
}

// The products of some rows; `skips`: a kernel column at a time, where it meets columns of the image.
void FewRun::Columns(const TapArgs& whole, bool skips) const {
  if (!skips) return tile_(whole);
  std::vector<int64_t> offsets(static_cast<size_t>(s_.c));
  for (int64_t kx = 0; kx < s_.kw; ++kx) {
    const int64_t shift = kx * s_.dw - s_.pl, begin = shift < 0 ? CeilDiv(-shift, s_.sw) : 0,
                  end = shift < s_.w ? std::min(s_.ow, CeilDiv(s_.w - shift, s_.sw)) : 0;
    if (begin >= end) continue;
    for (int64_t c = 0; c < s_.c; ++c) offsets[static_cast<size_t>(c)] = whole.offsets[c * s_.kw + kx];
    TapArgs t = whole;
    t.x += begin, t.dy += begin * kC0;
    t.pixels = end - begin;
    t.offsets = offsets.data(), t.channels = static_cast<int>(s_.c);
    t.sums += kx * whole.sums_stride, t.sums_stride *= s_.kw;
    tile_(t);
  }
}

// Output rows [row, end) of one image, those of t->dy, under kernel row ky.
void FewRun::Rows(const GradChunk& chunk, int64_t row, int64_t end, int64_t ky, bool skips,
                  TapArgs* t) const {
  constexpr int64_t kAtOnce = 32;
  RowPair pairs[kAtOnce];
  t->x = copies_;
  t->rows = pairs;
  t->num_rows = 0;
  const auto flush = [&] {
    if (t->num_rows > 0) Columns(*t, skips);
    t->num_rows = 0;
  };
  for (int64_t r = row; r < end; ++r) {
    const int64_t iy = r % s_.oh * s_.sh - s_.pt + ky * s_.dh;
    if (iy < 0 || iy >= s_.h) continue;
    pairs[t->num_rows++] = {(r / s_.oh * s_.h + iy - chunk.x_begin) * layout_.row, (r - row) * s_.ow * kC0};
    if (t->num_rows == kAtOnce) flush();
  }
  flush();
}

void FewRun::Store(int64_t first, int64_t lanes, int64_t ky, bool add, const float* sums) const {
  const int64_t real = std::min(lanes, s_.oc - first), taps = s_.c * s_.kh * s_.kw;
  for (int64_t c = 0; c < s_.c; ++c, sums += s_.kw * lanes) {
    float* to = dw_ + first * taps + (c * s_.kh + ky) * s_.kw;
    for (int64_t l = 0; l < real; ++l, to += taps)
      for (int64_t kx = 0; kx < s_.kw; ++kx)
        to[kx] = add ? to[kx] + sums[kx * lanes + l] : sums[kx * lanes + l];
  }
}

}  // namespace

bool FitsFewChannels(const ConvShape& s) {
  constexpr int64_t kFewChannels = 4;
  return s.flat() && s.groups == 1 && s.c <= kFewChannels && s.kw > 1 &&
         std::min({s.n, s.c, s.oc, s.kh, s.oh, s.ow, s.h, s.w}) > 0;
}

void PlanFewChannels(WeightGradPlan* p) {
  // Rows in blocks, which every kernel position reads again, in L1.
  constexpr int64_t kRunBytes = 28 << 10;
  // Copied rows, which every group of filters reads again, beside the sums in L2.
  constexpr int64_t kChunkInputBytes = 1 << 20;
  const ConvShape& s = p->shape = p->given;
  const RowLayout layout(s);
  p->few_channels = true;
  p->run_rows = std::clamp<int64_t>(kRunBytes / (kBlocks * s.ow * kC0 * kFloatBytes), 1, s.oh);
  p->run_rows = CeilDiv(s.oh, CeilDiv(s.oh, p->run_rows));
  int64_t rows = std::max<int64_t>(1, kChunkInputBytes / (s.sh * s.c * layout.row * kFloatBytes));
  rows = rows >= s.oh ? std::min(s.n, rows / s.oh) * s.oh : CeilDiv(s.oh, CeilDiv(s.oh, rows));
  p->chunk_rows = rows;
  p->chunk_x_rows =
      rows >= s.oh ? rows / s.oh * s.h : std::min(s.h, (rows - 1) * s.sh + (s.kh - 1) * s.dh + 1);
  p->workspace_bytes = static_cast<size_t>(s.c * p->chunk_x_rows * layout.row * kFloatBytes);
}

void RunFewChannels(const WeightGradPlan& plan, const float* x, const float* dy, float* dw, void* workspace) {
  FewRun(plan, x, dy, dw, static_cast<float*>(workspace)).Run();
}

}  // namespace opsnn::conv
