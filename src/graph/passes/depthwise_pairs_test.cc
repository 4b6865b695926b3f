// A depthwise convolution and the pointwise one behind it, or around it, as one node: what matches, that bits
// stay, and what the judge says.
#include <algorithm>

#include "graph/graph_tester.h"
#include "plan/judge.h"

namespace opsnn::graph {
namespace {

std::vector<int64_t> V(std::initializer_list<int64_t> v) { return v; }

ValueId Depthwise(GraphMaker& m, ValueId x, int64_t c, int64_t k, int64_t stride) {
  return m.Op("Conv", {x, m.Random({c, 1, k, k}), m.Random({c})},
              {{"pads", V({k / 2, k / 2, k / 2, k / 2})}, {"strides", V({stride, stride})}, {"group", c}});
}

ValueId Act(GraphMaker& m, ValueId x, int which) {
  if (which == 0) return x;
  if (which == 1) return m.Op("Relu", {x});
  if (which == 2) return m.Op("Clip", {x, m.Scalar(0), m.Scalar(6)});
  return m.Op("HardSwish", {x});
}

TEST(DepthwisePairs, HaveTheBitsOfTheirParts) {
  for (int act = 0; act < 4; ++act)
    for (int64_t stride : {1, 2})
      for (bool residual : {false, true}) {
        GraphMaker m;
        const int64_t c = 40;
        const ValueId x = m.In("x", {2, c, 13, 17});
        const ValueId between = Act(m, Depthwise(m, x, c, stride == 1 ? 3 : 5, stride), act);
        ValueId y = m.Op("Conv", {between, m.Random({24, c, 1, 1}), m.Random({24})});
        if (residual)
          y = m.Op("Add", {y, m.In("r", {2, 24, (13 + stride - 1) / stride, (17 + stride - 1) / stride})});
        m.Out(m.Op("Sigmoid", {y}));
        const Outcome o = ExpectFusionKeepsResults(m, 100);
        EXPECT_EQ(o.Effects("depthwise_pairs"), 1) << act << " " << stride << " " << residual;
        EXPECT_EQ(o.Count("DepthwisePointwise"), 1);
        EXPECT_EQ(o.Count("Conv"), 0);
        const Outcome with = RunGraph(m, Mode(FusionMode::kForce)),
                      without = RunGraph(m, Mode(FusionMode::kForce, "depthwise_pairs"));
        EXPECT_EQ(with.outputs, without.outputs);
        EXPECT_EQ(without.Count("DepthwisePointwise"), 0);
      }
}

// An inverted residual block: the product in front joins, too.
ValueId Expanded(GraphMaker& m, ValueId x, int64_t from, int64_t c, int act) {
  return Act(m, m.Op("Conv", {x, m.Random({c, from, 1, 1}), m.Random({c})}), act);
}

TEST(DepthwisePairs, TakeTheExpansionInFront) {
  for (int act = 0; act < 4; ++act)
    for (int64_t stride : {1, 2}) {
      GraphMaker m;
      const int64_t c = 40;
      const ValueId x = m.In("x", {2, 24, 13, 17});
      const ValueId between = Act(m, Depthwise(m, Expanded(m, x, 24, c, act), c, 3, stride), 3 - act);
      ValueId y = m.Op("Conv", {between, m.Random({24, c, 1, 1}), m.Random({24})});
      if (stride == 1) y = m.Op("Add", {y, x});
      m.Out(y);
      const Outcome o = ExpectFusionKeepsResults(m, 100);
      EXPECT_EQ(o.Effects("depthwise_pairs"), 1) << act << " " << stride;
      EXPECT_EQ(o.Count("DepthwisePointwise"), 1);
      EXPECT_EQ(o.Count("Conv"), 0);
      const Outcome with = RunGraph(m, Mode(FusionMode::kForce)),
                    without = RunGraph(m, Mode(FusionMode::kForce, "depthwise_pairs"));
      EXPECT_EQ(with.outputs, without.outputs);
      EXPECT_EQ(without.Count("Conv"), 3);
    }
}

TEST(DepthwisePairs, LeaveAnExpansionThatSomebodyElseReads) {
  const auto convolutions = [](auto&& make, int act) {
    GraphMaker m;
    const ValueId expanded = Expanded(m, m.In("x", {1, 20, 9, 9}), 20, 32, act);
    make(m, expanded);
    m.Out(m.Op("Conv", {Depthwise(m, expanded, 32, 3, 1), m.Random({8, 32, 1, 1})}));
    const Outcome o = ExpectFusionKeepsResults(m, 100);
    EXPECT_EQ(o.Count("DepthwisePointwise"), 1);
    return o.Count("Conv");
  };
  EXPECT_EQ(convolutions([](GraphMaker&, ValueId) {}, 1), 0);
  EXPECT_EQ(convolutions([](GraphMaker& m, ValueId v) { m.Out(v); }, 1), 1);
  EXPECT_EQ(convolutions([](GraphMaker& m, ValueId v) { m.Out(m.Op("Neg", {v})); }, 1), 1);
  GraphMaker m;  // an activation that is not applied in registers
  const ValueId e = m.Op("Softplus", {Expanded(m, m.In("x", {1, 20, 9, 9}), 20, 32, 0)});
  m.Out(m.Op("Conv", {Depthwise(m, e, 32, 3, 1), m.Random({8, 32, 1, 1})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 100).Count("Conv"), 1);
}

TEST(DepthwisePairs, LeaveWhatSomebodyElseReads) {
  const auto effects = [](auto&& make) {
    GraphMaker m;
    make(m, Depthwise(m, m.In("x", {1, 20, 9, 9}), 20, 3, 1));
    return ExpectFusionKeepsResults(m, 100).Effects("depthwise_pairs");
  };
  EXPECT_EQ(effects([](GraphMaker& m, ValueId v) {  // a result of the model
              m.Out(v);
              m.Out(m.Op("Conv", {v, m.Random({8, 20, 1, 1})}));
            }),
            0);
  EXPECT_EQ(effects([](GraphMaker& m, ValueId v) {  // two readers
              m.Out(m.Op("Conv", {v, m.Random({8, 20, 1, 1})}));
              m.Out(m.Op("Conv", {v, m.Random({4, 20, 1, 1})}));
            }),
            0);
  EXPECT_EQ(effects([](GraphMaker& m, ValueId v) {  // a kernel of 3x3
              m.Out(m.Op("Conv", {v, m.Random({8, 20, 3, 3})}));
            }),
            0);
  EXPECT_EQ(effects([](GraphMaker& m, ValueId v) {  // an activation that the pair does not have between
              m.Out(m.Op("Conv", {m.Op("Sigmoid", {v}), m.Random({8, 20, 1, 1})}));
            }),
            0);
}

// Pairs that no kernel joins are shown with the reason; other convolutions are none of this pass's business.
TEST(DepthwisePairs, LeaveAReason) {
  const auto reasons = [](auto&& make) {
    GraphMaker m;
    make(m, Depthwise(m, m.In("x", {1, 20, 9, 9}), 20, 3, 1));
    std::string s;
    for (const plan::Decision& d : RunGraph(m, Mode(FusionMode::kAuto)).decisions)
      if (d.chain == "depthwise+pointwise" && d.verdict == plan::Verdict::kRefuse) s += d.reason + "|";
    return s;
  };
  EXPECT_EQ(reasons([](GraphMaker& m, ValueId v) {
              m.Out(v);
              m.Out(m.Op("Conv", {v, m.Random({8, 20, 1, 1})}));
            }),
            "what lies between is an output of the model|");
  EXPECT_EQ(reasons([](GraphMaker& m, ValueId v) {
              m.Out(m.Op("Conv", {v, m.Random({8, 20, 1, 1})}));
              m.Out(m.Op("Conv", {v, m.Random({8, 20, 3, 3})}));
            }),
            "what lies between has other readers|");
  EXPECT_EQ(reasons([](GraphMaker& m, ValueId v) {
              m.Out(m.Op("Conv", {m.Op("Relu", {m.Op("Neg", {v})}), m.Random({8, 20, 1, 1})}));
            }),
            "the chain between the two is none that is applied in registers|");
  EXPECT_EQ(reasons([](GraphMaker& m, ValueId v) { m.Out(m.Op("Conv", {v, m.Random({8, 20, 3, 3})})); }), "");
}

// Whatever it says, it says it with terms, and the graph follows.
TEST(DepthwisePairs, FollowTheJudge) {
  for (const int64_t size : {7, 112}) {
    GraphMaker m;
    const ValueId v = Depthwise(m, m.In("x", {2, 32, size, size}), 32, 3, 1);
    m.Out(m.Op("Conv", {m.Op("Relu", {v}), m.Random({16, 32, 1, 1})}));
    const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
    const auto d = std::find_if(o.decisions.begin(), o.decisions.end(),
                                [](const plan::Decision& k) { return k.chain == "depthwise+pointwise"; });
    ASSERT_NE(d, o.decisions.end());
    EXPECT_FALSE(d->split_terms.empty() || d->fused_terms.empty());
    EXPECT_EQ(o.Count("DepthwisePointwise"), plan::Fuses(*d) ? 1 : 0);
  }
}

}  // namespace
}  // namespace opsnn::graph
