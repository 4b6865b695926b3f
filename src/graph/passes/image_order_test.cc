// Transposes between NHWC and NCHW that a conversion beside them takes over.
#include <gtest/gtest.h>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

using Ints = std::vector<int64_t>;
constexpr int64_t kF16 = 10, kBF16 = 16, kF32 = 1;

ValueId ToNchw(GraphMaker& m, ValueId x) { return m.Op("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}}); }
ValueId ToNhwc(GraphMaker& m, ValueId x) { return m.Op("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}}); }

// Steps that run and are no convolution or what is fused to one.
int Conversions(const Outcome& o) { return o.prepared->nodes_run() - o.Count("Conv"); }

// An NHWC model as exporters write it: every convolution between transposes.
TEST(ImageOrder, NhwcModelsAreConvertedOnceAtEachEnd) {
  for (auto _ : testing::FuzzFor(100)) {
    GraphMaker m;
    testing::Rng& rng = m.rng();
    const int64_t c = rng.Int(17, 40), h = rng.Int(1, 9), w = rng.Int(2, 9);
    ValueId y = m.In("x", {rng.Int(1, 3), h, w, c});
    for (int i = 0; i < 3; ++i) {
      y = m.Op("Conv", {ToNchw(m, y), m.Random({c, c, 3, 3}, -0.1, 0.1)}, {{"pads", Ints(4, 1)}});
      y = m.Op("Relu", {ToNhwc(m, y)});
    }
    m.Out(y);
    const Outcome o = ExpectFusionKeepsResults(m, 8);
    EXPECT_GE(o.Effects("image_order"), 1);
    SessionOptions off = Mode(FusionMode::kForce, "image_order");
    EXPECT_LT(Conversions(o), Conversions(RunGraph(m, off)));
  }
}

TEST(ImageOrder, OneConvolution) {
  GraphMaker m;
  const ValueId v = m.Op("Conv", {ToNchw(m, m.In("x", {2, 6, 5, 32})), m.Random({48, 32, 1, 1})});
  m.Out(ToNhwc(m, v));
  const Outcome o = ExpectFusionKeepsResults(m, 16);
  EXPECT_EQ(o.Effects("image_order"), 2);
  EXPECT_EQ(Conversions(o), 2);
  // The values that the model names are there for whoever looks, in their own order.
  const Outcome seen = RunGraph(m, Mode(FusionMode::kForce), true);
  const Outcome plain = RunGraph(m, Mode(FusionMode::kOff), true);
  for (const auto& [name, want] : plain.captured) {
    if (const auto it = seen.captured.find(name); it != seen.captured.end()) {
      EXPECT_EQ("", testing::Compare(it->second, want, 64 * testing::Epsilon(DType::kF32), 0)) << name;
    }
  }
}

TEST(ImageOrder, TransposeAndCastAreOnePass) {
  for (auto _ : testing::FuzzFor(200)) {
    GraphMaker m;
    testing::Rng& rng = m.rng();
    const bool widen = rng.Chance(0.3), to_nchw = rng.Chance(0.5), cast_first = rng.Chance(0.5);
    const int64_t half = rng.Chance(0.5) ? kF16 : kBF16;
    const DType from = !widen ? DType::kF32 : half == kF16 ? DType::kF16 : DType::kBF16;
    ValueId y = m.In("x", {rng.Int(1, 3), rng.Int(1, 30), rng.Int(2, 30), rng.Int(2, 40)}, from);
    for (const bool cast : {cast_first, !cast_first})
      y = cast ? m.Op("Cast", {y}, {{"to", widen ? kF32 : half}}) : to_nchw ? ToNchw(m, y) : ToNhwc(m, y);
    m.Out(y);
    const Outcome plain = RunGraph(m, Mode(FusionMode::kOff)), one = RunGraph(m, Mode(FusionMode::kForce));
    EXPECT_EQ(plain.outputs, one.outputs);
    EXPECT_EQ(plain.prepared->nodes_run(), 2);
    EXPECT_EQ(one.prepared->nodes_run(), 1);
    // What lies between is neither written nor read.
    const int64_t n = static_cast<int64_t>(plain.outputs[0].size());
    EXPECT_EQ(one.prepared->bytes_moved(), n * 6);
    EXPECT_GE(plain.prepared->bytes_moved(), n * (6 + 4));
  }
}

TEST(ImageOrder, OtherReadersKeepTheirTranspose) {
  GraphMaker m;
  const ValueId t = ToNchw(m, m.In("x", {1, 4, 6, 32}));
  m.Out(m.Op("Cast", {t}, {{"to", kF16}}));
  m.Out(t);
  m.Out(m.Op("Conv", {t, m.Random({16, 32, 1, 1})}));
  const Outcome o = ExpectFusionKeepsResults(m, 16);
  EXPECT_EQ(o.Effects("image_order"), 0);
  GraphMaker other;  // another order
  other.Out(other.Op("Cast",
                     {other.Op("Transpose", {other.In("x", {2, 3, 4, 5})}, {{"perm", Ints{3, 0, 1, 2}}})},
                     {{"to", kF16}}));
  EXPECT_EQ(RunGraph(other, Mode(FusionMode::kForce)).Effects("image_order"), 0);
}

}  // namespace
}  // namespace opsnn::graph
