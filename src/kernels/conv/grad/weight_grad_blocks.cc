#include "kernels/conv/grad/weight_grad_blocks.h"

#include <algorithm>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/blocked.h"
#include "kernels/transpose/tile.h"

namespace opsnn::conv {
namespace {

// Dense images and the blocks of their channels.
struct Source {
  const float* nchw = nullptr;
  int64_t channels = 0, rows = 0, w = 0;  // of an image; rows through all its slices
  int64_t groups = 1, blocks = 1;         // blocks per group
  int64_t begin = 0, end = 0;             // rows wanted, through all images
  float* blocked = nullptr;
  int64_t block_floats = 0;
};

// Calls fn(image, first row in it, rows, index of the row in the chunk) for pieces of about kPiecePixels.
template <typename Fn>
void ForEachPiece(const Source& s, int64_t blocks, Fn&& fn) {
  constexpr int64_t kPiecePixels = 512;
  if (s.begin >= s.end || s.w == 0) return;
  const int64_t piece = std::max<int64_t>(1, kPiecePixels / s.w), first = s.begin / s.rows,
                images = CeilDiv(s.end, s.rows) - first,
                pieces = CeilDiv(std::min(s.rows, s.end - s.begin), piece);
  ParallelFor(blocks * images * pieces, [&](int64_t i, int) {
    const int64_t image = first + i / pieces % images;
    const int64_t top = std::max(s.begin, image * s.rows) + i % pieces * piece,
                  bottom = std::min({top + piece, s.end, (image + 1) * s.rows});
    if (top < bottom) fn(i / pieces / images, image, top - image * s.rows, bottom - top, top - s.begin);
  });
}

void BlockRows(const Source& s) {
  const int64_t per_group = s.channels / s.groups, plane = s.rows * s.w;
  ForEachPiece(s, s.groups * s.blocks,
               [&](int64_t block, int64_t image, int64_t row, int64_t rows, int64_t at) {
                 const int64_t first = block % s.blocks * kC0;
                 const int lanes = static_cast<int>(std::min<int64_t>(kC0, per_group - first));
                 const int64_t c = block / s.blocks * per_group + first;
                 ToBlocked(s.nchw + (image * s.channels + c) * plane + row * s.w, plane, lanes, rows * s.w,
                           s.blocked + block * s.block_floats + at * s.w * kC0);
               });
}

// Does some kernel row meet input row y?
bool Met(const ConvShape& s, int64_t y) {
  for (int64_t ky = 0; ky < s.kh; ++ky)
    if ((y + s.pt - ky * s.dh) % s.sh == 0) return true;
  return false;
}

// planes[r * ceil(w / step) + i] = row[i * step + r], so that what output columns meet lies together.
void SplitColumns(const float* row, int64_t w, int64_t step, std::vector<float>* planes) {
  const int64_t length = CeilDiv(w, step), whole = w / step;
  planes->resize(static_cast<size_t>(step * length));
  constexpr int64_t kFloat = sizeof(float);
  kernels::Transpose2D({sizeof(float), whole, step, row, step * kFloat, planes->data(), length * kFloat});
  for (int64_t i = whole * step; i < w; ++i)
    (*planes)[static_cast<size_t>(i % step * length + whole)] = row[i];
}

// Pixel (row, ox) holds what output column ox meets in that row, channel by channel and kernel column by
// kernel column; 0 in the padding.
void SpreadRows(const WeightGradPlan& plan, const Source& s) {
  const ConvShape& given = plan.given;
  const int64_t lanes = given.c * given.kw;
  ForEachPiece(s, s.blocks, [&](int64_t block, int64_t image, int64_t row, int64_t rows, int64_t at) {
    thread_local std::vector<float> line, planes;  // [lane][ox]; columns of a channel by their rest
    const int64_t first = block * plan.block_channels, count = std::min(plan.block_channels, lanes - first);
    for (int64_t r = row; r < row + rows; ++r, ++at) {
      if (!Met(given, r % given.h)) continue;
      line.assign(static_cast<size_t>(count * s.w), 0.0f);
      for (int64_t l = 0; l < count; ++l) {
        const int64_t c = (first + l) / given.kw, shift = (first + l) % given.kw * given.dw - given.pl;
        if (l == 0 || (first + l) % given.kw == 0)
          SplitColumns(s.nchw + ((image * given.c + c) * s.rows + r) * given.w, given.w, given.sw, &planes);
        const int64_t ox = shift < 0 ? CeilDiv(-shift, given.sw) : 0;
        const int64_t end = shift < given.w ? std::min(s.w, CeilDiv(given.w - shift, given.sw)) : 0;
        if (ox >= end) continue;
        const int64_t column = ox * given.sw + shift;
        const float* const from =
            planes.data() + column % given.sw * CeilDiv(given.w, given.sw) + column / given.sw;
        std::copy(from, from + (end - ox), line.data() + l * s.w + ox);
      }
      ToBlocked(line.data(), s.w, static_cast<int>(count), s.w,
                s.blocked + block * s.block_floats + at * s.w * kC0);
    }
  });
}

}  // namespace

GradChunk ChunkAt(const ConvShape& s, int64_t begin, int64_t rows) {
  const int64_t per_image = s.od * s.oh, image_rows = s.d * s.h;
  if (per_image == 0 || s.n == 0) return {};
  const int64_t image = begin / per_image;
  if (rows >= per_image) {
    const int64_t images = std::min(rows / per_image, s.n - image);
    return {begin, begin + images * per_image, image * image_rows, (image + images) * image_rows};
  }
  const int64_t slice = begin / s.oh, oy = begin % s.oh, end = std::min(s.oh, oy + rows);
  GradChunk c{begin, slice * s.oh + end, 0, 0};
  c.x_begin = std::clamp<int64_t>(oy * s.sh - s.pt, 0, s.h);
  c.x_end = std::clamp<int64_t>((end - 1) * s.sh - s.pt + (s.kh - 1) * s.dh + 1, c.x_begin, s.h);
  c.x_begin += image * image_rows, c.x_end += image * image_rows;
  return c;
}

void BlockChunk(const WeightGradPlan& plan, const GradChunk& chunk, const float* x, const float* dy,
                float* blocked_x, float* blocked_dy) {
  const ConvShape& s = plan.shape;
  const Source in{x,           s.c,       s.d * s.h,         s.w, plan.groups, plan.in_blocks, chunk.x_begin,
                  chunk.x_end, blocked_x, XBlockFloats(plan)};
  plan.spread ? SpreadRows(plan, in) : BlockRows(in);
  BlockRows({dy, s.oc, s.od * s.oh, s.ow, plan.groups, plan.out_blocks, chunk.begin, chunk.end, blocked_dy,
             DyBlockFloats(plan)});
}

}  // namespace opsnn::conv
