#include "kernels/conv/deform/deform.h"

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
  Run(const DeformPlan& plan, const DeformArgs& args)
      : DeformWorkspace(plan, args.workspace), plan_(plan), s_(plan.shape), args_(args) {}
  void All() {
    for (size_t g = 0; g < plan_.products.size(); ++g) Pack(g);
    for (int64_t n = 0; n < s_.n; ++n) {
      BlockDeformImage(s_, plan_.segments, args_.x + n * s_.c * s_.plane(), Floats(plan_.x_offset));
      for (int64_t row = 0; row < s_.oh; row += plan_.chunk_rows) {
        const int64_t rows = std::min(plan_.chunk_rows, s_.oh - row);
        FindCorners(s_, plan_.offset_groups, {args_.dy, args_.dx, args_.mask},
                    {n, row, rows * s_.ow, ChunkPixels()}, corners());
        for (size_t g = 0; g < plan_.products.size(); ++g) {
          Sample(g, rows * s_.ow);
          if (args_.columns) StoreColumns(n, g, row, rows);
          Multiply(n, g, row, rows);
        }
      }
    }
  }

 private:
  void Pack(size_t g) const;
  void Sample(size_t g, int64_t pixels) const;
  void StoreColumns(int64_t n, size_t g, int64_t row, int64_t rows) const;
  void Multiply(int64_t n, size_t g, int64_t row, int64_t rows) const;

  const DeformPlan& plan_;
  const ConvShape& s_;
  const DeformArgs& args_;
};

// Weights in the order of the columns; lanes that stand for no channel get zeros.
void Run::Pack(size_t g) const {
  const int64_t taps = s_.taps(), cg = s_.c / s_.groups, og = s_.oc / s_.groups;
  float* const dense = Floats(plan_.dense_offset[g]);
  const int64_t channels = ColumnChannels(s_, plan_.segments[g]), first = static_cast<int64_t>(g) * cg;
  ParallelFor(og, [&](int64_t o, int) {
    const float* const w = args_.w + (static_cast<int64_t>(g) * og + o) * cg * taps;
    float* to = dense + o * channels;
    std::fill_n(to, channels, 0.0f);
    for (const DeformSegment& s : plan_.segments[g])
      for (int64_t k = 0; k < taps; ++k, to += SegmentBlocks(s) * kC0)
        for (int64_t i = 0; i < s.count; ++i) to[i] = w[(s.first - first + i) * taps + k];
  });
  PackWeights(plan_.products[g], dense, Floats(plan_.packed_offset[g]));
}

void Run::Sample(size_t g, int64_t pixels) const {
  const int64_t taps = s_.taps();
  float* out = Floats(plan_.columns_offset);
  for (const DeformSegment& s : plan_.segments[g]) {
    const int64_t blocks = SegmentBlocks(s);
    ParallelFor(taps * blocks, [&](int64_t i, int) {
      SampleBlock(Floats(plan_.x_offset) + (s.x_block + i % blocks) * DeformPlaneFloats(s_),
                  corners() + (s.offset_group * taps + i / blocks) * ChunkPixels(), pixels,
                  out + i * ChunkPixels() * kC0);
    });
    out += taps * blocks * ChunkPixels() * kC0;
  }
}

void Run::StoreColumns(int64_t n, size_t g, int64_t row, int64_t rows) const {
  const float* columns = Floats(plan_.columns_offset);
  for (const DeformSegment& s : plan_.segments[g]) {
    const int64_t blocks = SegmentBlocks(s);
    ParallelFor(s.count, [&](int64_t c, int) {
      float* const plane = args_.columns + (n * s_.c + s.first + c) * s_.oh * s_.kh * s_.ow * s_.kw;
      for (int64_t k = 0; k < s_.taps(); ++k) {
        const float* const from = columns + (k * blocks + c / kC0) * ChunkPixels() * kC0 + c % kC0;
        for (int64_t p = 0; p < rows * s_.ow; ++p) {
          const int64_t y = (row + p / s_.ow) * s_.kh + k / s_.kw, x = p % s_.ow * s_.kw + k % s_.kw;
          plane[y * s_.ow * s_.kw + x] = from[p * kC0];
        }
      }
    });
    columns += s_.taps() * blocks * ChunkPixels() * kC0;
  }
}

void Run::Multiply(int64_t n, size_t g, int64_t row, int64_t rows) const {
  const int64_t og = s_.oc / s_.groups, o = static_cast<int64_t>(g) * og, plane = s_.out_plane();
  ConvArgs a;
  a.x = Floats(plan_.columns_offset);
  a.weights = Floats(plan_.packed_offset[g]);
  a.y = Floats(plan_.result_offset);
  a.workspace = ws_ + plan_.product_offset;
  if (args_.bias) a.epilogue.bias = args_.bias + o;
  RunConv(plan_.products[g], a);
  ParallelFor(CeilDiv(og, int64_t{kC0}), [&](int64_t b, int) {
    const int lanes = static_cast<int>(std::min<int64_t>(kC0, og - b * kC0));
    FromBlocked(a.y + b * ChunkPixels() * kC0, lanes, rows * s_.ow,
                args_.y + (n * s_.oc + o + b * kC0) * plane + row * s_.ow, plane);
  });
}

}  // namespace

std::string DeformPlan::Describe() const {
  return StrFormat("deformable %dx%d, columns of %d rows times weights, %s", static_cast<int>(shape.kh),
                   static_cast<int>(shape.kw), static_cast<int>(chunk_rows), isa::Name(isa::ActiveTier()));
}

DeformPlan PlanDeform(const ConvShape& shape, int64_t offset_groups) {
  DeformPlan p;
  PlanDeformColumns(shape, offset_groups, DeformProduct::kFromColumns, &p);
  const int64_t channels = RoundUp(shape.oc / shape.groups, int64_t{kC0});
  p.result_offset = p.Reserve(channels * p.chunk_pixels() * kFloatBytes);
  return p;
}

void RunDeform(const DeformPlan& plan, const DeformArgs& args) {
  const ConvShape& s = plan.shape;
  if (s.n == 0 || s.oc == 0 || s.oh == 0 || s.ow == 0) return;
  Run(plan, args).All();
}

}  // namespace opsnn::conv
