#include "kernels/conv/deform_grad.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/blocked.h"
#include "kernels/conv/deform_places.h"
#include "kernels/conv/deform_sample.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Columns of a chunk stay in a private L2 beside weights and images.
constexpr int64_t kColumnBytes = 512 << 10;

class Run {
 public:
  Run(const DeformGradPlan& plan, const DeformGradArgs& args)
      : plan_(plan), s_(plan.shape), args_(args), ws_(static_cast<char*>(args.workspace)) {}
  void All() {
    for (size_t g = 0; g < plan_.products.size(); ++g) Pack(g);
    for (int64_t n = 0; n < s_.n; ++n) {
      BlockDeformImage(s_, plan_.segments, args_.x + n * s_.c * s_.plane(), Floats(plan_.x_offset));
      ParallelFor(plan_.x_blocks, [&](int64_t b, int) {
        std::fill_n(Floats(plan_.dx_offset) + b * DeformPlaneFloats(s_), DeformPlaneFloats(s_), 0.0f);
      });
      ClearPlaces(n);
      for (int64_t row = 0; row < s_.oh; row += plan_.chunk_rows) {
        const DeformRows rows{n, row, std::min(plan_.chunk_rows, s_.oh - row) * s_.ow, ChunkPixels()};
        FindCorners(s_, plan_.offset_groups, {args_.down, args_.right, args_.mask}, rows, corners());
        for (size_t g = 0; g < plan_.products.size(); ++g) {
          Multiply(g, rows);
          Places(g, rows);
          Spread(g, rows);
        }
      }
      StoreImage(n);
    }
  }

 private:
  float* Floats(size_t offset) const { return reinterpret_cast<float*>(ws_ + offset); }
  int64_t ChunkPixels() const { return plan_.chunk_rows * s_.ow; }
  Corners* corners() const { return reinterpret_cast<Corners*>(ws_ + plan_.corners_offset); }
  const Corners* CornersOf(const DeformSegment& s, int64_t tap) const {
    return corners() + (s.offset_group * s_.taps() + tap) * ChunkPixels();
  }
  void Pack(size_t g) const;
  void ClearPlaces(int64_t n) const;
  void Multiply(size_t g, const DeformRows& rows) const;
  void Places(size_t g, const DeformRows& rows) const;
  void Spread(size_t g, const DeformRows& rows) const;
  void StoreImage(int64_t n) const;

  const DeformGradPlan& plan_;
  const ConvShape& s_;
  const DeformGradArgs& args_;
  char* const ws_;
};

// Weights from output channels to columns; lanes that stand for no channel get zeros.
void Run::Pack(size_t g) const {
  const int64_t taps = s_.taps(), cg = s_.c / s_.groups, og = s_.oc / s_.groups;
  const float* const w = args_.w + static_cast<int64_t>(g) * og * cg * taps;
  float* to = Floats(plan_.dense_offset[g]);
  for (const DeformSegment& s : plan_.segments[g])
    for (int64_t k = 0; k < taps; ++k, to += SegmentBlocks(s) * kC0 * og)
      ParallelFor(SegmentBlocks(s) * kC0, [&](int64_t i, int) {
        const int64_t c = s.first - static_cast<int64_t>(g) * cg + i;
        for (int64_t o = 0; o < og; ++o) to[i * og + o] = i < s.count ? w[(o * cg + c) * taps + k] : 0.0f;
      });
  PackWeights(plan_.products[g], Floats(plan_.dense_offset[g]), Floats(plan_.packed_offset[g]));
}

void Run::ClearPlaces(int64_t n) const {
  for (const DeformFieldGrad* f : {&args_.ddown, &args_.dright, &args_.dmask}) {
    if (!f->data) continue;
    ParallelFor(plan_.offset_groups * s_.taps(), [&](int64_t i, int) {
      std::fill_n(f->data + n * f->image + i * f->channel, s_.out_plane(), 0.0f);
    });
  }
}

void Run::Multiply(size_t g, const DeformRows& rows) const {
  const int64_t og = s_.oc / s_.groups, o = static_cast<int64_t>(g) * og, plane = s_.out_plane();
  ConvArgs a;
  ParallelFor(CeilDiv(og, int64_t{kC0}), [&](int64_t b, int) {
    const int lanes = static_cast<int>(std::min<int64_t>(kC0, og - b * kC0));
    ToBlocked(args_.dy + (rows.n * s_.oc + o + b * kC0) * plane + rows.row * s_.ow, plane, lanes, rows.pixels,
              Floats(plan_.dy_offset) + b * ChunkPixels() * kC0);
  });
  a.x = Floats(plan_.dy_offset);
  a.weights = Floats(plan_.packed_offset[g]);
  a.y = Floats(plan_.columns_offset);
  a.workspace = ws_ + plan_.product_offset;
  RunConv(plan_.products[g], a);
}

// A segment has offset group and kernel position for itself among those of its convolution group.
void Run::Places(size_t g, const DeformRows& rows) const {
  const int64_t taps = s_.taps(), first = rows.row * s_.ow;
  const float* columns = Floats(plan_.columns_offset);
  for (const DeformSegment& s : plan_.segments[g]) {
    const int64_t blocks = SegmentBlocks(s);
    ParallelFor(taps, [&](int64_t k, int) {
      const auto at = [&](const DeformFieldGrad& f) {
        return f.data ? f.data + rows.n * f.image + (s.offset_group * taps + k) * f.channel + first : nullptr;
      };
      const PlaceGrads to{at(args_.ddown), at(args_.dright), at(args_.dmask)};
      for (int64_t b = 0; b < blocks; ++b)
        AddPlaceGrads(Floats(plan_.x_offset) + (s.x_block + b) * DeformPlaneFloats(s_), CornersOf(s, k),
                      rows.pixels, columns + (k * blocks + b) * ChunkPixels() * kC0,
                      static_cast<int>(std::min<int64_t>(kC0, s.count - b * kC0)), to);
    });
    columns += taps * blocks * ChunkPixels() * kC0;
  }
}

void Run::Spread(size_t g, const DeformRows& rows) const {
  const float* columns = Floats(plan_.columns_offset);
  for (const DeformSegment& s : plan_.segments[g]) {
    const int64_t blocks = SegmentBlocks(s);
    ParallelFor(blocks, [&](int64_t b, int) {
      for (int64_t k = 0; k < s_.taps(); ++k)
        SpreadBlock(CornersOf(s, k), rows.pixels, columns + (k * blocks + b) * ChunkPixels() * kC0,
                    Floats(plan_.dx_offset) + (s.x_block + b) * DeformPlaneFloats(s_));
    });
    columns += s_.taps() * blocks * ChunkPixels() * kC0;
  }
}

void Run::StoreImage(int64_t n) const {
  const int64_t plane = s_.plane();
  for (const auto& list : plan_.segments)
    for (const DeformSegment& s : list)
      ParallelFor(SegmentBlocks(s), [&](int64_t b, int) {
        const int lanes = static_cast<int>(std::min<int64_t>(kC0, s.count - b * kC0));
        FromBlocked(Floats(plan_.dx_offset) + (s.x_block + b) * DeformPlaneFloats(s_), lanes, plane,
                    args_.dx + (n * s_.c + s.first + b * kC0) * plane, plane);
      });
}

}  // namespace

std::string DeformGradPlan::Describe() const {
  return StrFormat("gradient of deformable %dx%d, columns of %d rows, %s", static_cast<int>(shape.kh),
                   static_cast<int>(shape.kw), static_cast<int>(chunk_rows), isa::Name(isa::ActiveTier()));
}

DeformGradPlan PlanDeformGrad(const ConvShape& shape, int64_t offset_groups) {
  DeformGradPlan p;
  p.shape = shape;
  p.offset_groups = offset_groups;
  p.segments = DeformSegments(shape, offset_groups, &p.x_blocks);
  int64_t most = 1;
  for (const auto& list : p.segments) most = std::max(most, ColumnChannels(shape, list));
  const int64_t rows = std::max<int64_t>(1, shape.oh);
  p.chunk_rows =
      std::clamp<int64_t>(kColumnBytes / (most * std::max<int64_t>(1, shape.ow) * kFloatBytes), 1, rows);
  p.chunk_rows = CeilDiv(rows, CeilDiv(rows, p.chunk_rows));
  const auto reserve = [&p](int64_t bytes) {
    constexpr size_t kLine = 64;
    const size_t at = p.workspace_bytes;
    p.workspace_bytes = RoundUp(at + static_cast<size_t>(bytes), kLine);
    return at;
  };
  const int64_t pixels = p.chunk_rows * shape.ow, og = shape.oc / shape.groups;
  size_t product = 0;
  for (const auto& list : p.segments) {
    ConvShape s;
    s.c = og, s.oc = ColumnChannels(shape, list);
    s.h = s.oh = p.chunk_rows, s.w = s.ow = shape.ow;
    p.products.push_back(PlanConv(s));
    product = std::max(product, p.products.back().workspace_bytes);
    p.dense_offset.push_back(reserve(og * s.oc * kFloatBytes));
    p.packed_offset.push_back(reserve(p.products.back().packed_floats * kFloatBytes));
  }
  p.x_offset = reserve(p.x_blocks * DeformPlaneFloats(shape) * kFloatBytes);
  p.dx_offset = reserve(p.x_blocks * DeformPlaneFloats(shape) * kFloatBytes);
  p.corners_offset = reserve(offset_groups * shape.taps() * pixels * static_cast<int64_t>(sizeof(Corners)));
  p.columns_offset = reserve(most * pixels * kFloatBytes);
  p.dy_offset = reserve(RoundUp(og, int64_t{kC0}) * pixels * kFloatBytes);
  p.product_offset = reserve(static_cast<int64_t>(product));
  return p;
}

void RunDeformGrad(const DeformGradPlan& plan, const DeformGradArgs& args) { Run(plan, args).All(); }

}  // namespace opsnn::conv
