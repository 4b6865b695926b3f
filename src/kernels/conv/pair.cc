#include "kernels/conv/pair.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/int_math.h"
#include "base/parallel.h"
#include "base/work_range.h"
#include "kernels/conv/act_pass.h"
#include "kernels/conv/candidates.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/pack.h"
#include "kernels/conv/tile.h"

namespace opsnn::conv {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// A pointwise convolution, some pixels at a time.
class Product {
 public:
  // `plane`: floats from one block of channels to the next of what it reads.
  Product(const ConvPlan& plan, const ConvArgs& args, const float* bias, int64_t plane)
      : plan_(plan), weights_(args.weights), bias_(bias), post_(args.post()) {
    for (int64_t c = 0; c < plan.shape.c; c += kC0)
      segments_.push_back(
          {c / kC0 * plane, 0, static_cast<int32_t>(std::min<int64_t>(kC0, plan.shape.c - c))});
  }
  // `spare`: there are pixels that may be read behind these.
  void Run(const float* x, int64_t pixels, bool spare, float* y, int64_t out_plane,
           const float* residual) const {
    TileArgs t;
    t.segments = segments_.data();
    t.num_segments = static_cast<int64_t>(segments_.size());
    t.block_stride = out_plane;
    t.lane_end = kC0;
    t.post = &post_;
    for (const OcGroup& g : plan_.oc_groups) {
      t.weights = weights_ + g.weight_offset[0];
      t.bias = bias_ ? bias_ + g.block * kC0 : nullptr;
      float* const out = y + g.block * out_plane;
      for (int64_t at = 0; at < pixels;) {
        const TileKernel& k = FindRowTile(plan_.tier, g.blocks, pixels - at);
        t.pixels = static_cast<int>(std::min<int64_t>(k.pixels, pixels - at));
        t.repeat = std::max<int64_t>(1, (pixels - at) / k.pixels);
        t.x = x + at * kC0;
        t.y = out + at * kC0;
        t.residual = residual ? residual + g.block * out_plane + at * kC0 : nullptr;
        if (spare || t.pixels == k.pixels) {
          k.For(Step::kBlock)(t);
        } else {
          RunLast(k, t);
        }
        at += t.pixels * t.repeat;
      }
      if (IsRegisterAct(post_.act)) continue;
      for (int b = 0; b < g.blocks; ++b) PostPass(post_, out + b * out_plane, pixels * kC0);
    }
  }

 private:
  // A tile with fewer pixels than it computes, behind which nothing may be read.
  static void RunLast(const TileKernel& k, TileArgs t) {
    int64_t offsets[kMaxPixels] = {};
    for (int p = 0; p < t.pixels; ++p) offsets[p] = int64_t{p} * kC0;
    t.pixel_offset = t.out_offset = offsets;
    k.For(Step::kTable)(t);
  }

  const ConvPlan& plan_;
  const float *weights_, *bias_;
  const Post post_;
  std::vector<Segment> segments_;
};

struct Rows {
  int64_t begin = 0, end = 0;
};

class PairRun {
 public:
  PairRun(const PairPlan& plan, const ConvArgs& first, const ConvArgs& second, const ConvArgs& expand)
      : a_(plan.first.shape),
        b_(plan.second.shape),
        plan_(plan),
        first_(first),
        second_(second),
        in_(PrepareOperands(plan.first, first)),
        out_(PrepareOperands(plan.second, second)),
        post_(first.post()),
        blocks_(CeilDiv(a_.oc, int64_t{kC0})),
        out_blocks_(CeilDiv(b_.oc, int64_t{kC0})),
        cut_(CutPair(a_, plan.expand != nullptr, ThreadsAvailable(), plan.limits)),
        strip_plane_((cut_.rows * a_.ow + kMaxPixels) * kC0),
        expanded_plane_(RowsUnder(a_, cut_.rows) * a_.w * kC0),
        project_(plan.second, second, out_.bias, strip_plane_) {
    if (!plan.expand) return;
    expand_in_ = PrepareOperands(*plan.expand, expand);
    expand_.emplace(*plan.expand, expand, expand_in_.bias, a_.plane() * kC0);
  }
  void Run() const;

 private:
  size_t ScratchBytes() const {
    return static_cast<size_t>(blocks_ * (strip_plane_ + (expand_ ? expanded_plane_ : 0)) * kFloatBytes);
  }
  void RunPiece(int64_t n, Rows rows) const;
  Rows Under(Rows out) const;
  void Expand(int64_t n, Rows need, Rows* held, float* expanded) const;
  void Filter(int64_t n, Rows out, Rows in, const float* expanded, float* strip) const;
  void Project(int64_t n, Rows out, const float* strip) const;

  const ConvShape &a_, &b_;
  const PairPlan& plan_;
  const ConvArgs &first_, &second_;
  const Operands in_, out_;
  const Post post_;
  const int64_t blocks_, out_blocks_;
  const PairCut cut_;
  // Floats of a block in the strip, with room for the spare pixels of a tile, and of the rows under it.
  const int64_t strip_plane_, expanded_plane_;
  const Product project_;
  Operands expand_in_;
  std::optional<Product> expand_;
};

void PairRun::Run() const {
  const int64_t pieces = cut_.pieces;
  ParallelOwned(a_.n * pieces, [&](int64_t i) {
    const int64_t n = i / pieces, piece = i % pieces;
    RunPiece(n, {a_.oh * piece / pieces, a_.oh * (piece + 1) / pieces});
  });
}

void PairRun::RunPiece(int64_t n, Rows rows) const {
  float* const strip = static_cast<float*>(ThreadScratch(ScratchBytes()));
  if (!strip) return;
  float* const expanded = strip + blocks_ * strip_plane_;
  Rows held;
  for (int64_t begin = rows.begin; begin < rows.end; begin += cut_.rows) {
    const Rows out{begin, std::min(begin + cut_.rows, rows.end)};
    Rows in{0, a_.h};
    if (expand_) {
      in = Under(out);
      Expand(n, in, &held, expanded);
    }
    Filter(n, out, in, expanded, strip);
    Project(n, out, strip);
    FinishRows(plan_.second, second_, out_.y, n, 0, out_blocks_, out.begin, out.end);
  }
}

// Rows of the image that these rows of the first's output read.
Rows PairRun::Under(Rows out) const {
  const int64_t first = out.begin * a_.sh - a_.pt, last = first + RowsUnder(a_, out.end - out.begin);
  const Rows in{std::clamp<int64_t>(first, 0, a_.h), std::clamp<int64_t>(last, 0, a_.h)};
  return in;
}

// Makes rows `need` of the expanded image; those of the strip before move to the front.
void PairRun::Expand(int64_t n, Rows need, Rows* held, float* expanded) const {
  const int64_t row = a_.w * kC0, blocks_in = CeilDiv(plan_.expand->shape.c, int64_t{kC0});
  const int64_t kept = std::clamp<int64_t>(held->end - need.begin, 0, need.end - need.begin);
  if (kept > 0)
    for (int64_t b = 0; b < blocks_; ++b) {
      float* const plane = expanded + b * expanded_plane_;
      std::memmove(plane, plane + (need.begin - held->begin) * row,
                   static_cast<size_t>(kept * row * kFloatBytes));
    }
  *held = need;
  const int64_t from = need.begin + kept;
  expand_->Run(expand_in_.x + n * blocks_in * a_.plane() * kC0 + from * row, (need.end - from) * a_.w, false,
               expanded + kept * row, expanded_plane_, nullptr);
}

void PairRun::Filter(int64_t n, Rows out, Rows in, const float* expanded, float* strip) const {
  // The rows in the cache are an image of their own, with padding where the whole has it.
  ConvShape s = a_;
  Rows rows = out;
  if (expand_) {
    s.h = in.end - in.begin, s.oh = out.end - out.begin;
    s.pt = in.begin - (out.begin * a_.sh - a_.pt);
    rows = {0, s.oh};
  }
  DepthwiseBlock block;
  block.post = &post_;
  block.finite_weights = FiniteWeights(plan_.first, first_.weights);
  for (int64_t b = 0; b < blocks_; ++b) {
    block.x = expand_ ? expanded + b * expanded_plane_ : in_.x + (n * blocks_ + b) * a_.plane() * kC0;
    block.weights = first_.weights + b * a_.taps() * kC0;
    block.bias = in_.bias ? in_.bias + b * kC0 : nullptr;
    block.y = strip + b * strip_plane_;
    DepthwiseRows(s, block, rows.begin, rows.end);
  }
}

void PairRun::Project(int64_t n, Rows out, const float* strip) const {
  const int64_t plane = b_.out_plane() * kC0, at = n * out_blocks_ * plane + out.begin * a_.ow * kC0;
  project_.Run(strip, (out.end - out.begin) * a_.ow, true, out_.y + at, plane,
               second_.residual ? second_.residual + at : nullptr);
}

// `args` with packed weights and their part of the workspace.
ConvArgs Packed(const ConvPlan& plan, ConvArgs args, char* workspace) {
  args.workspace = workspace;
  return WithPackedWeights(plan, args);
}

int64_t RowBytes(int64_t channels, int64_t columns) {
  return RoundUp(channels, int64_t{kC0}) * columns * kFloatBytes;
}

}  // namespace

std::string PairPlan::Describe() const {
  const std::string both = first.Describe() + "; its rows go on to " + second.Describe();
  return expand ? expand->Describe() + "; its rows go on to " + both : both;
}

const char* PairRefusal(const PairShape& s, const PairLimits& limits) {
  const ConvShape &first = s.first, &second = s.second;
  if (first.transposed || second.transposed) return "transposed";
  if (Refusal(first, Variant::kDepthwise)) return "the first is not depthwise";
  if (!first.flat()) return "three dimensions";
  if (Refusal(second, Variant::kPointwise)) return "the second is not pointwise";
  int64_t weights = second.c * RoundUp(second.oc, int64_t{kC0});
  if (s.expand) {
    ConvShape planes = *s.expand;
    planes.x_blocked = false;
    if (planes.transposed || Refusal(planes, Variant::kPointwise)) return "the expansion is not pointwise";
    if (!Refusal(planes, Variant::kFirstLayer)) return "an expansion of few channels";
    weights += planes.c * RoundUp(planes.oc, int64_t{kC0});
    if (RowBytes(first.c, first.w) * RowsUnder(first, 1) > limits.expanded_bytes)
      return "rows of the expansion that do not stay in L2";
  }
  if (weights * kFloatBytes > limits.weight_bytes)
    return "weights of the product that do not stay in L2 beside the rows";
  return nullptr;
}

int64_t RowsUnder(const ConvShape& first, int64_t rows) {
  return (rows - 1) * first.sh + (first.kh - 1) * first.dh + 1;
}

// As few strips as fit the cache, and so many that threads have equal shares: each costs the rows that it has
// in common with the next. With an expansion that holds for pieces, and strips begin where others end.
PairCut CutPair(const ConvShape& first, bool expanded, int threads, const PairLimits& limits) {
  constexpr int64_t kPiecesPerThread = 2;
  const int64_t images = std::max<int64_t>(1, first.n), rows = std::max<int64_t>(1, first.oh);
  const int64_t row_bytes = std::max<int64_t>(1, RowBytes(first.oc, first.ow));
  int64_t fit = limits.strip_bytes / row_bytes;
  if (expanded) {
    const int64_t under = limits.expanded_bytes / std::max<int64_t>(1, RowBytes(first.c, first.w));
    fit = std::min(fit, (under - RowsUnder(first, 1)) / first.sh + 1);
  }
  fit = std::clamp<int64_t>(fit, 1, rows);
  int64_t pieces = expanded ? 1 : CeilDiv(rows, fit);
  if (threads > 1) pieces = std::max(pieces, CeilDiv(kPiecesPerThread * threads, images));
  while (pieces < rows && images * pieces % threads != 0) ++pieces;
  pieces = std::clamp<int64_t>(pieces, 1, rows);
  const int64_t of_piece = CeilDiv(rows, pieces);
  return {CeilDiv(of_piece, CeilDiv(of_piece, fit)), pieces};
}

PairPlan PlanPair(const PairShape& s, const PairLimits& limits) {
  PairPlan p;
  p.limits = limits;
  ConvShape a = s.first, b = s.second;
  a.y_blocked = b.x_blocked = true;
  if (s.expand) {
    ConvShape e = *s.expand;
    a.x_blocked = e.y_blocked = true;
    p.expand = std::make_shared<const ConvPlan>(PlanConv(e));
  }
  p.first = PlanConv(a), p.second = PlanConv(b);
  constexpr size_t kAlign = 128;
  p.first_offset = RoundUp(p.second.workspace_bytes, kAlign);
  p.expand_offset = RoundUp(p.first_offset + p.first.workspace_bytes, kAlign);
  p.workspace_bytes = p.expand_offset + (p.expand ? p.expand->workspace_bytes : 0);
  return p;
}

void RunPair(const PairPlan& plan, const PairArgs& args) {
  const ConvShape& s = plan.second.shape;
  if (s.n == 0 || s.oc == 0 || s.oh == 0 || s.ow == 0) return;
  std::optional<ScopedThreadLimit> alone;
  const double work =
      MultiplyAdds(plan.first.shape) + MultiplyAdds(s) + (plan.expand ? MultiplyAdds(plan.expand->shape) : 0);
  if (work < kAloneMultiplyAdds) alone.emplace(1);
  char* const ws = static_cast<char*>(args.workspace);
  const ConvArgs first = Packed(plan.first, args.first, ws + plan.first_offset),
                 second = Packed(plan.second, args.second, ws);
  ConvArgs expand;
  if (plan.expand) expand = Packed(*plan.expand, args.expand, ws + plan.expand_offset);
  PairRun(plan, first, second, expand).Run();
}

}  // namespace opsnn::conv
