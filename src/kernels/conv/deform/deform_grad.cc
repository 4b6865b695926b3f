#include "kernels/conv/deform/deform_grad.h"

#include <algorithm>

#include "base/int_math.h"
#include "base/parallel.h"
#include "kernels/conv/blocked.h"
#include "kernels/conv/deform/deform_places.h"
#include "kernels/conv/deform/deform_sample.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

class Run : DeformWorkspace {
 public:
  Run(const DeformGradPlan& plan, const DeformGradArgs& args)
      : DeformWorkspace(plan, args.workspace), plan_(plan), s_(plan.shape), args_(args) {}
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
  PlanDeformColumns(shape, offset_groups, DeformProduct::kToColumns, &p);
  p.dx_offset = p.Reserve(p.x_blocks * DeformPlaneFloats(shape) * kFloatBytes);
  const int64_t channels = RoundUp(shape.oc / shape.groups, int64_t{kC0});
  p.dy_offset = p.Reserve(channels * p.chunk_pixels() * kFloatBytes);
  return p;
}

void RunDeformGrad(const DeformGradPlan& plan, const DeformGradArgs& args) { Run(plan, args).All(); }

}  // namespace opsnn::conv
