#include "kernels/conv/deform/deform_places.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.h"
#include "kernels/conv/blocked.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Columns of a chunk stay in a private L2 beside weights and images.
constexpr int64_t kColumnBytes = 512 << 10;

// In double: a place has as many digits as its offset, however far from the origin.
Corners Place(const ConvShape& s, double y, double x) {
  const auto outside = static_cast<int32_t>(s.plane());
  Corners c{{outside, outside, outside, outside}, 0, 0, 1};
  if (std::isnan(y) || std::isnan(x)) {
    c.down = c.right = std::nanf("");
    return c;
  }
  const bool near = y > -1 && y < static_cast<double>(s.h) && x > -1 && x < static_cast<double>(s.w);
  if (!near) return c;
  const double top = std::floor(y), left = std::floor(x);
  c.down = static_cast<float>(y - top), c.right = static_cast<float>(x - left);
  for (int i = 0; i < 4; ++i) {
    const int64_t row = static_cast<int64_t>(top) + i / 2, column = static_cast<int64_t>(left) + i % 2;
    if (row >= 0 && row < s.h && column >= 0 && column < s.w)
      c.at[i] = static_cast<int32_t>(row * s.w + column);
  }
  return c;
}

}  // namespace

std::vector<std::vector<DeformSegment>> DeformSegments(const ConvShape& s, int64_t offset_groups,
                                                       int64_t* x_blocks) {
  const int64_t cg = s.c / s.groups, cd = s.c / offset_groups;
  std::vector<std::vector<DeformSegment>> all(static_cast<size_t>(s.groups));
  *x_blocks = 0;
  for (int64_t c = 0; c < s.c;) {
    const int64_t end = std::min((c / cg + 1) * cg, (c / cd + 1) * cd);
    const DeformSegment segment{c, end - c, c / cd, *x_blocks};
    all[static_cast<size_t>(c / cg)].push_back(segment);
    *x_blocks += SegmentBlocks(segment);
    c = end;
  }
  return all;
}

int64_t ColumnChannels(const ConvShape& s, const std::vector<DeformSegment>& segments) {
  int64_t blocks = 0;
  for (const DeformSegment& segment : segments) blocks += SegmentBlocks(segment);
  return blocks * s.taps() * kC0;
}

size_t DeformColumns::Reserve(int64_t bytes) {
  constexpr size_t kLine = 64;
  const size_t at = workspace_bytes;
  workspace_bytes = RoundUp(at + static_cast<size_t>(bytes), kLine);
  return at;
}

void PlanDeformColumns(const ConvShape& shape, int64_t offset_groups, DeformProduct product,
                       DeformColumns* p) {
  p->shape = shape;
  p->offset_groups = offset_groups;
  p->segments = DeformSegments(shape, offset_groups, &p->x_blocks);
  int64_t most = 1;
  for (const auto& list : p->segments) most = std::max(most, ColumnChannels(shape, list));
  const int64_t rows = std::max<int64_t>(1, shape.oh);
  p->chunk_rows =
      std::clamp<int64_t>(kColumnBytes / (most * std::max<int64_t>(1, shape.ow) * kFloatBytes), 1, rows);
  p->chunk_rows = CeilDiv(rows, CeilDiv(rows, p->chunk_rows));
  const int64_t og = shape.oc / shape.groups;
  size_t own = 0;
  for (const auto& list : p->segments) {
    const int64_t columns = ColumnChannels(shape, list);
    ConvShape s;
    s.c = columns, s.oc = og;
    if (product == DeformProduct::kToColumns) std::swap(s.c, s.oc);
    s.h = s.oh = p->chunk_rows, s.w = s.ow = shape.ow;
    p->products.push_back(PlanConv(s));
    own = std::max(own, p->products.back().workspace_bytes);
    p->dense_offset.push_back(p->Reserve(og * columns * kFloatBytes));
    p->packed_offset.push_back(p->Reserve(p->products.back().packed_floats * kFloatBytes));
  }
  p->x_offset = p->Reserve(p->x_blocks * DeformPlaneFloats(shape) * kFloatBytes);
  p->corners_offset =
      p->Reserve(offset_groups * shape.taps() * p->chunk_pixels() * static_cast<int64_t>(sizeof(Corners)));
  p->columns_offset = p->Reserve(most * p->chunk_pixels() * kFloatBytes);
  p->product_offset = p->Reserve(static_cast<int64_t>(own));
}

void BlockDeformImage(const ConvShape& s, const std::vector<std::vector<DeformSegment>>& segments,
                      const float* x, float* blocked) {
  const int64_t plane = s.plane();
  for (const auto& list : segments)
    for (const DeformSegment& segment : list)
      ParallelFor(SegmentBlocks(segment), [&](int64_t b, int) {
        const int lanes = static_cast<int>(std::min<int64_t>(kC0, segment.count - b * kC0));
        float* const to = blocked + (segment.x_block + b) * DeformPlaneFloats(s);
        ToBlocked(x + (segment.first + b * kC0) * plane, plane, lanes, plane, to);
        std::fill_n(to + plane * kC0, kC0, 0.0f);
      });
}

void FindCorners(const ConvShape& s, int64_t offset_groups, const DeformFields& fields,
                 const DeformRows& rows, Corners* corners) {
  const int64_t taps = s.taps();
  ParallelFor(offset_groups * taps, [&](int64_t i, int) {
    const int64_t ky = i % taps / s.kw, kx = i % taps % s.kw, first = rows.row * s.ow;
    const auto at = [&](const DeformField& f) { return f.data + rows.n * f.image + i * f.channel + first; };
    const float *const dy = at(fields.dy), *const dx = at(fields.dx);
    const float* const mask = fields.mask.data ? at(fields.mask) : nullptr;
    Corners* const out = corners + i * rows.room;
    for (int64_t p = 0; p < rows.pixels; ++p) {
      const int64_t y = (rows.row + p / s.ow) * s.sh - s.pt + ky * s.dh,
                    x = p % s.ow * s.sw - s.pl + kx * s.dw;
      out[p] = Place(s, static_cast<double>(y) + dy[p], static_cast<double>(x) + dx[p]);
      if (mask) out[p].mask = mask[p];
    }
  });
}

}  // namespace opsnn::conv
