// What the passes made of one size stands for others only where they would do the same again.
#include "graph/plan_template.h"

#include <cstring>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

using Ints = std::vector<int64_t>;

ValueId Conv(GraphMaker& m, ValueId x, int64_t in, int64_t out, int64_t k, int64_t groups = 1,
             int64_t s = 1) {
  return m.Op("Conv", {x, m.Random({out, in / groups, k, k}, -0.3, 0.3), m.Random({out})},
              {{"pads", Ints(4, k / 2)}, {"group", groups}, {"strides", Ints{s, s}}});
}

// A detector in small: a stem, depthwise and pointwise layers with a gate, two scales that meet at a size
// that is computed, and a head that doubles the size.
void MakeDetector(GraphMaker& m) {
  const ValueId x = m.In("x", {kUnknownDim, 3, kUnknownDim, kUnknownDim});
  ValueId y = m.Op("HardSwish", {Conv(m, x, 3, 16, 3, 1, 2)});
  const ValueId fine = y;
  y = m.Op("Relu", {Conv(m, y, 16, 16, 3, 16)});
  const ValueId gate = m.Op("Sigmoid", {Conv(m, m.Op("GlobalAveragePool", {y}), 16, 16, 1)});
  y = m.Op("Add", {Conv(m, m.Op("Mul", {y, gate}), 16, 16, 1), fine});
  ValueId coarse = m.Op("Relu", {Conv(m, y, 16, 32, 3, 1, 2)});
  coarse = m.Op("Add", {m.Op("Relu", {Conv(m, coarse, 32, 32, 3)}), coarse});
  const ValueId size = m.Op("Shape", {fine});
  const ValueId scaled = m.Op("Resize", {Conv(m, coarse, 32, 16, 1), kNoValue, kNoValue,
                                         m.Op("Concat",
                                              {m.Op("Slice", {m.Op("Shape", {y}), m.Ints({0}), m.Ints({2})}),
                                               m.Op("Slice", {size, m.Ints({2}), m.Ints({4})})},
                                              {{"axis", int64_t{0}}})});
  y = m.Op("Concat", {scaled, y}, {{"axis", int64_t{1}}});
  y = m.Op("Mul", {m.Op("Tanh", {m.Op("Neg", {Conv(m, y, 32, 16, 3)})}), m.Scalar(0.5f)});
  m.Out(m.Op("Sigmoid", {m.Op("ConvTranspose", {y, m.Random({16, 1, 2, 2})}, {{"strides", Ints{2, 2}}})}));
}

int Effects(const Prepared& p, const std::string& pass) {
  for (const PassStat& s : p.pass_stats())
    if (s.name == pass) return s.effects;
  return -1;
}

// Everything that a run depends on.
std::string Text(const Prepared& p) {
  std::string s = p.graph().ToString();
  for (const Step& step : p.steps()) s += step.variant() + "\n";
  return s + std::to_string(p.peak_bytes()) + " " + p.memory().strategy;
}

TEST(PlanTemplate, PlansOfOtherSizesAreThoseOfAFreshSession) {
  for (const NumericsPolicy policy : {NumericsPolicy::kExcess, NumericsPolicy::kExact}) {
    for (const FusionMode mode : {FusionMode::kAuto, FusionMode::kForce}) {
      GraphMaker m;
      MakeDetector(m);
      SessionOptions options = Mode(mode);
      options.policy = policy;
      auto kept = Session::Create(m.graph(), options);
      ASSERT_TRUE(kept.ok()) << kept.status().message();
      testing::Rng rng;
      int used = 0, sizes = 0;
      for (auto _ : testing::FuzzFor(400)) {
        const int64_t h = rng.Chance(0.2) ? rng.Int(1, 8) : 32 * rng.Int(1, 6);
        const int64_t w = rng.Chance(0.2) ? h : rng.Chance(0.2) ? rng.Int(1, 8) : 32 * rng.Int(1, 6);
        const Feeds feeds = {{"x", m.RandomTensor({rng.Int(1, 2), 3, h, w})}};
        auto fresh = Session::Create(m.graph(), options);
        ASSERT_TRUE(fresh.ok());
        const auto got = (*kept)->Run(feeds), want = (*fresh)->Run(feeds);
        ASSERT_EQ(got.ok(), want.ok()) << got.status().message() << want.status().message();
        if (!got.ok()) continue;
        ++sizes;
        used += Effects(*got->prepared, "plan_template") > 0;
        ASSERT_EQ(Text(*got->prepared), Text(*want->prepared)) << h << "x" << w;
        const ConstTensor &a = got->outputs[0], &b = want->outputs[0];
        ASSERT_EQ(a->dims(), b->dims());
        ASSERT_EQ(std::memcmp(a->data(), b->data(), a->bytes()), 0) << h << "x" << w;
      }
      if (sizes > 8) {
        EXPECT_GT(used, 0);
      }
    }
  }
}

// Sizes under which other dims are equal, or 1, are planned by the passes.
TEST(PlanTemplate, SizesThatMeetArePlannedAnew) {
  GraphMaker m;
  MakeDetector(m);
  auto s = Session::Create(m.graph(), Mode(FusionMode::kForce));
  ASSERT_TRUE(s.ok());
  const auto used = [&](int64_t n, int64_t h, int64_t w) {
    const auto p = (*s)->Prepare({{"x", {n, 3, h, w}}});
    EXPECT_TRUE(p.ok()) << p.status().message();
    return p.ok() && Effects(**p, "plan_template") > 0;
  };
  EXPECT_FALSE(used(1, 96, 160));
  EXPECT_TRUE(used(1, 96, 224));
  EXPECT_TRUE(used(1, 128, 128));
  EXPECT_FALSE(used(2, 128, 128));  // a batch is more than one
  EXPECT_FALSE(used(1, 4, 4));      // half of half of it is 1
}

TEST(PlanTemplate, OtherModelsAreNotServed) {
  GraphMaker m;
  m.Out(m.Op("MatMul", {m.In("x", {kUnknownDim, 8}), m.Random({8, 4})}));
  EXPECT_FALSE(PlanTemplate::Serves(m.graph()));
  GraphMaker images;
  MakeDetector(images);
  EXPECT_TRUE(PlanTemplate::Serves(images.graph()));
}

// The same nodes with another result asked for are another graph.
TEST(PlanTemplate, ResultsAreCompared) {
  GraphMaker m;
  const ValueId x = m.In("x", {1, 3, 8, 8});
  const ValueId y = m.Op("Relu", {Conv(m, x, 3, 16, 3)}), z = m.Op("Neg", {y});
  m.Out(y), m.Out(z);
  const Graph& g = m.graph();
  PlanTemplate t(g);
  ASSERT_TRUE(t.Finish(g, Questions(), {}));
  EXPECT_TRUE(t.Fits(g, PassContext()));
  Graph other = g;
  other.outputs = {z, y};
  EXPECT_FALSE(t.Fits(other, PassContext()));
  other.outputs = {z};
  EXPECT_FALSE(t.Fits(other, PassContext()));
}

// A question that has another answer, and one that nobody kept.
TEST(PlanTemplate, Questions) {
  const Graph g;
  const PassContext c;
  Answer now = Answer::kYes;
  Questions q;
  q.Asked();
  EXPECT_FALSE(q.complete());
  q.Keep([&](const Graph&, const PassContext&) { return now; }, Answer::kYes);
  EXPECT_TRUE(q.complete());
  EXPECT_TRUE(q.SameAnswers(g, c));
  now = Answer::kNo;
  EXPECT_FALSE(q.SameAnswers(g, c));
  q.Keep([](const Graph&, const PassContext&) { return Answer::kOther; }, Answer::kOther, false);
  EXPECT_FALSE(q.complete());
}

}  // namespace
}  // namespace opsnn::graph
