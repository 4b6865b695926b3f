#include "kernels/conv/pair.h"

#include <algorithm>
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

class PairRun {
 public:
  PairRun(const PairPlan& plan, const ConvArgs& first, const ConvArgs& second)
      : a_(plan.first.shape),
        b_(plan.second.shape),
        plan_(plan),
        first_(first),
        second_(second),
        in_(PrepareOperands(plan.first, first)),
        out_(PrepareOperands(plan.second, second)),
        post_a_(first.post()),
        post_b_(second.post()),
        blocks_(CeilDiv(a_.oc, int64_t{kC0})),
        out_blocks_(CeilDiv(b_.oc, int64_t{kC0})),
        rows_(PairStripRows(a_, ThreadsAvailable(), plan.strip_bytes)),
        strip_plane_((rows_ * a_.ow + kMaxPixels) * kC0) {
    for (int64_t c = 0; c < a_.oc; c += kC0)
      segments_.push_back(
          {c / kC0 * strip_plane_, 0, static_cast<int32_t>(std::min<int64_t>(kC0, a_.oc - c))});
  }
  void Run() const;

 private:
  void Fill(int64_t n, int64_t begin, int64_t end, float* strip) const;
  void Multiply(int64_t n, int64_t begin, int64_t end, const float* strip) const;

  const ConvShape &a_, &b_;
  const PairPlan& plan_;
  const ConvArgs &first_, &second_;
  const Operands in_, out_;
  const Post post_a_, post_b_;
  const int64_t blocks_, out_blocks_, rows_;
  const int64_t strip_plane_;  // floats of a block in the strip, with room for the spare pixels of a tile
  std::vector<Segment> segments_;
};

void PairRun::Run() const {
  const int64_t rows = a_.oh, strips = CeilDiv(rows, rows_);
  ParallelOwned(a_.n * strips, [&](int64_t i) {
    const int64_t n = i / strips, begin = i % strips * rows_, end = std::min(begin + rows_, rows);
    float* const strip =
        static_cast<float*>(ThreadScratch(static_cast<size_t>(blocks_ * strip_plane_ * kFloatBytes)));
    if (!strip) return;
    Fill(n, begin, end, strip);
    Multiply(n, begin, end, strip);
    FinishRows(plan_.second, second_, out_.y, n, 0, out_blocks_, begin, end);
  });
}

void PairRun::Fill(int64_t n, int64_t begin, int64_t end, float* strip) const {
  DepthwiseBlock block;
  block.post = &post_a_;
  block.finite_weights = FiniteWeights(plan_.first, first_.weights);
  for (int64_t b = 0; b < blocks_; ++b) {
    block.x = in_.x + (n * blocks_ + b) * a_.plane() * kC0;
    block.weights = first_.weights + b * a_.taps() * kC0;
    block.bias = in_.bias ? in_.bias + b * kC0 : nullptr;
    block.y = strip + b * strip_plane_;
    DepthwiseRows(a_, block, begin, end);
  }
}

void PairRun::Multiply(int64_t n, int64_t begin, int64_t end, const float* strip) const {
  const int64_t pixels = (end - begin) * a_.ow, plane = b_.out_plane() * kC0;
  TileArgs t;
  t.segments = segments_.data();
  t.num_segments = static_cast<int64_t>(segments_.size());
  t.block_stride = plane;
  t.lane_end = kC0;
  t.post = &post_b_;
  for (const OcGroup& g : plan_.second.oc_groups) {
    t.weights = second_.weights + g.weight_offset[0];
    t.bias = out_.bias ? out_.bias + g.block * kC0 : nullptr;
    const int64_t out = (n * out_blocks_ + g.block) * plane + begin * a_.ow * kC0;
    for (int64_t at = 0; at < pixels;) {
      const TileKernel& k = FindRowTile(plan_.second.tier, g.blocks, pixels - at);
      t.pixels = static_cast<int>(std::min<int64_t>(k.pixels, pixels - at));
      t.repeat = std::max<int64_t>(1, (pixels - at) / k.pixels);
      t.x = strip + at * kC0;
      t.y = out_.y + out + at * kC0;
      t.residual = second_.residual ? second_.residual + out + at * kC0 : nullptr;
      k.For(Step::kBlock)(t);
      at += t.pixels * t.repeat;
    }
    if (IsRegisterAct(post_b_.act)) continue;
    for (int b = 0; b < g.blocks; ++b) PostPass(post_b_, out_.y + out + b * plane, pixels * kC0);
  }
}

// `args` with packed weights and their part of the workspace.
ConvArgs Packed(const ConvPlan& plan, ConvArgs args, char* workspace) {
  args.workspace = workspace;
  return WithPackedWeights(plan, args);
}

}  // namespace

std::string PairPlan::Describe() const {
  return first.Describe() + "; its rows go on to " + second.Describe();
}

const char* PairRefusal(const ConvShape& first, const ConvShape& second, const PairLimits& limits) {
  if (first.transposed || second.transposed) return "transposed";
  if (Refusal(first, Variant::kDepthwise)) return "the first is not depthwise";
  if (!first.flat()) return "three dimensions";
  if (Refusal(second, Variant::kPointwise)) return "the second is not pointwise";
  if (second.c * RoundUp(second.oc, int64_t{kC0}) * kFloatBytes > limits.weight_bytes)
    return "weights of the product that do not stay in L2 beside the rows";
  return nullptr;
}

// As few strips as fit the cache, and so many that threads have equal shares: each costs the rows that it has
// in common with the next.
int64_t PairStripRows(const ConvShape& first, int threads, int64_t strip_bytes) {
  constexpr int64_t kStripsPerThread = 2;
  const int64_t row_bytes = RoundUp(first.oc, int64_t{kC0}) * first.ow * kFloatBytes;
  const int64_t images = std::max<int64_t>(1, first.n), rows = std::max<int64_t>(1, first.oh);
  int64_t strips = CeilDiv(rows * row_bytes, std::max<int64_t>(1, strip_bytes));
  if (threads > 1) strips = std::max(strips, CeilDiv(kStripsPerThread * threads, images));
  while (strips < rows && images * strips % threads != 0) ++strips;
  return CeilDiv(rows, std::clamp<int64_t>(strips, 1, rows));
}

PairPlan PlanPair(const ConvShape& first, const ConvShape& second, const PairLimits& limits) {
  PairPlan p;
  p.strip_bytes = limits.strip_bytes;
  ConvShape a = first, b = second;
  a.y_blocked = b.x_blocked = true;
  p.first = PlanConv(a), p.second = PlanConv(b);
  constexpr size_t kAlign = 128;
  p.first_offset = RoundUp(p.second.workspace_bytes, kAlign);
  p.workspace_bytes = p.first_offset + p.first.workspace_bytes;
  return p;
}

void RunPair(const PairPlan& plan, const PairArgs& args) {
  const ConvShape& s = plan.second.shape;
  if (s.n == 0 || s.oc == 0 || s.oh == 0 || s.ow == 0) return;
  std::optional<ScopedThreadLimit> alone;
  if (MultiplyAdds(plan.first.shape) + MultiplyAdds(s) < kAloneMultiplyAdds) alone.emplace(1);
  char* const ws = static_cast<char*>(args.workspace);
  const ConvArgs first = Packed(plan.first, args.first, ws + plan.first_offset),
                 second = Packed(plan.second, args.second, ws);
  PairRun(plan, first, second).Run();
}

}  // namespace opsnn::conv
