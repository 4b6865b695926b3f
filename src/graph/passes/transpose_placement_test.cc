// Transposes between channels first and last are placed for the whole graph.
#include <gtest/gtest.h>

#include <set>

#include "graph/graph_tester.h"
#include "graph/passes/min_cut.h"

namespace opsnn::graph {
namespace {

using Ints = std::vector<int64_t>;

ValueId ToNchw(GraphMaker& m, ValueId x) { return m.Op("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}}); }
ValueId ToNhwc(GraphMaker& m, ValueId x) { return m.Op("Transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}}); }

// As exporters of NHWC frameworks write it.
ValueId NhwcConv(GraphMaker& m, ValueId x, int64_t in, int64_t out, int64_t k) {
  const ValueId w = m.Random({out, in, k, k}, -0.1, 0.1);
  return ToNhwc(m, m.Op("Conv", {ToNchw(m, x), w}, {{"pads", Ints(4, k / 2)}}));
}

int Conversions(const Outcome& o) { return o.Count("TransData") + o.Count("Transpose"); }

TEST(TransposePlacement, ConvolutionsWithActivationsBetweenThem) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    GraphMaker m;
    const int64_t c = rng.Int(5, 40);
    ValueId y = m.In("x", {rng.Int(1, 2), rng.Int(2, 9), rng.Int(2, 9), c});
    const int64_t layers = rng.Int(2, 5);
    for (int64_t i = 0; i < layers; ++i) {
      const ValueId conv = NhwcConv(m, y, c, c, 3);
      switch (rng.Int(0, 3)) {
        case 0:
          y = m.Op("Relu", {conv});
          break;
        case 1:  // a parameter per channel lies along the last axis
          y = m.Op("Mul", {m.Op("Add", {conv, m.Random({c})}), m.Scalar(0.5f)});
          break;
        case 2:
          y = m.Op("Add", {m.Op("Sigmoid", {conv}), y});
          break;
        default:
          y = m.Op("PRelu", {conv, m.Random({1, 1, c})});
      }
    }
    m.Out(y);
    const Outcome o = ExpectFusionKeepsResults(m, 16);
    EXPECT_GE(o.Effects("transpose_placement"), layers - 1);
    // One into blocks, one out of them, each with a transpose that is another name for the same memory.
    EXPECT_LE(Conversions(o), 4);
    EXPECT_EQ(o.prepared->nodes_run(), layers + 2) << o.prepared->graph().ToString();
  }
}

TEST(TransposePlacement, PadResizeConcat) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    GraphMaker m;
    const int64_t c = 16 * rng.Int(1, 2), n = rng.Int(1, 2);
    const ValueId x = NhwcConv(m, m.In("x", {n, rng.Int(2, 6), rng.Int(2, 6), c}), c, c, 1);
    const bool linear = rng.Chance(0.5);
    ValueId y = m.Op("Resize", {x, kNoValue, m.Const(HostTensor::From<float>({4}, {1, 2, 3, 1}))},
                     {{"mode", std::string(linear ? "linear" : "nearest")}});
    y = m.Op("Pad", {y, m.Ints({0, 1, 2, 0, 0, 0, 1, 0})});
    y = m.Op("Concat", {y, m.Op("Relu", {y})}, {{"axis", rng.Chance(0.5) ? int64_t{-1} : int64_t{3}}});
    m.Out(NhwcConv(m, y, 2 * c, c, 3));
    const Outcome o = ExpectFusionKeepsResults(m, 16);
    EXPECT_GE(o.Effects("transpose_placement"), 4);
    // Pad works on images of one order; the others are transposed nowhere.
    for (const Node& node : o.prepared->graph().nodes) {
      if (node.op->name == "Transpose") {
        EXPECT_NE(node.aliasing, Aliasing::kNone) << o.prepared->graph().ToString();
      }
    }
  }
}

// Whatever reads both orders gets them.
TEST(TransposePlacement, RandomGraphsKeepTheirResults) {
  int64_t placed = 0;
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(600)) {
    GraphMaker m;
    const int64_t c = rng.Int(2, 20), h = rng.Int(1, 5), w = rng.Int(1, 5);
    const Dims last{1, h, w, c}, first{1, c, h, w};
    std::vector<std::pair<ValueId, bool>> values{{m.In("x", last), true}, {m.In("y", first), false}};
    const int64_t nodes = rng.Int(4, 20);
    for (int64_t i = 0; i < nodes; ++i) {
      const auto [v, is_last] =
          values[static_cast<size_t>(rng.Int(0, static_cast<int64_t>(values.size()) - 1))];
      std::vector<ValueId> like;
      for (const auto& [other, order] : values)
        if (order == is_last) like.push_back(other);
      const ValueId u = like[static_cast<size_t>(rng.Int(0, static_cast<int64_t>(like.size()) - 1))];
      switch (rng.Int(0, 5)) {
        case 0:
          values.emplace_back(m.Op("Relu", {v}), is_last);
          break;
        case 1:
          values.emplace_back(m.Op("Sub", {u, v}), is_last);
          break;
        case 2:
          values.emplace_back(m.Op("Mul", {v, m.Random(is_last ? Dims{w, c} : Dims{c, 1, 1})}), is_last);
          break;
        default:
          values.emplace_back(is_last ? ToNchw(m, v) : ToNhwc(m, v), !is_last);
      }
      if (rng.Chance(0.15)) m.Out(values.back().first);
    }
    m.Out(values.back().first);
    const Outcome plain = RunGraph(m, Mode(FusionMode::kOff, "transpose_placement"));
    const Outcome o = RunGraph(m, Mode(FusionMode::kForce));
    EXPECT_EQ(plain.outputs, o.outputs);
    std::set<std::string> names;
    for (const Value& v : o.prepared->graph().values) EXPECT_TRUE(names.insert(v.name).second) << v.name;
    placed += o.Effects("transpose_placement");
    const Outcome apart = RunGraph(m, Mode(FusionMode::kOff)),
                  placed_apart = RunGraph(m, Mode(FusionMode::kForce, "pointwise_chain,epilogue_fusion"));
    EXPECT_LE(placed_apart.Count("Transpose"), apart.Count("Transpose"));
  }
  EXPECT_GT(placed, 0);
}

TEST(TransposePlacement, NothingIsGained) {
  GraphMaker m;  // the transposed form has readers of its own
  const ValueId x = m.In("x", {1, 4, 5, 6});
  const ValueId y = m.Op("Relu", {x});
  m.Out(y);
  m.Out(ToNchw(m, y));
  m.Out(ToNchw(m, m.Op("Neg", {x})));
  EXPECT_EQ(RunGraph(m, Mode(FusionMode::kForce)).Effects("transpose_placement"), 0);
}

// A value of one element is the same in every order, whoever makes it in the other one.
TEST(TransposePlacement, OneElementBetweenThem) {
  GraphMaker m;
  const ValueId x = ToNchw(m, m.In("x", {1, 2, 2, 1})), big = ToNchw(m, m.In("big", {1, 8, 6, 4}));
  const ValueId one =
      m.Op("Resize", {x, kNoValue, kNoValue, m.Ints({1, 1, 1, 1})}, {{"mode", std::string("nearest")}});
  m.Out(ToNhwc(m, m.Op("Relu", {m.Op("Mul", {one, big})})));
  const Outcome o = ExpectFusionKeepsResults(m);
  EXPECT_EQ(Conversions(o), 0);
}

// The other operand of a Pad is a value, not an image.
TEST(TransposePlacement, PadValueFromTheOtherOrder) {
  GraphMaker m;
  const ValueId x = ToNchw(m, m.In("x", {1, 2, 2, 1})), big = ToNchw(m, m.In("big", {1, 8, 6, 4}));
  const ValueId one =
      m.Op("Resize", {x, kNoValue, kNoValue, m.Ints({1, 1, 1, 1})}, {{"mode", std::string("nearest")}});
  m.Out(ToNhwc(m, m.Op("Pad", {big, m.Ints({0, 1, 0, 2, 0, 0, 1, 0}), one})));
  ExpectFusionKeepsResults(m);
}

// ---- the cut, against every labelling

TEST(MinCut, IsTheCheapestLabelling) {
  testing::Rng rng;
  for (auto _ : testing::FuzzFor(200)) {
    MinCut cut;
    const int nodes = static_cast<int>(rng.Int(0, 9));
    for (int i = 0; i < nodes; ++i) cut.AddNode();
    struct Cost {
      int u, w;
      int64_t cost;
    };
    std::vector<Cost> costs;
    for (int64_t i = rng.Int(0, 30); i > 0; --i) {
      const Cost c{static_cast<int>(rng.Int(0, nodes + 1)), static_cast<int>(rng.Int(0, nodes + 1)),
                   rng.Chance(0.1) ? MinCut::kNever : rng.Int(0, 20)};
      if (c.u == MinCut::kZero && c.w == MinCut::kOne) continue;
      costs.push_back(c);
      cut.AddCost(c.u, c.w, c.cost);
    }
    const auto price = [&](uint32_t ones) {
      int64_t sum = 0;
      for (const Cost& c : costs)
        if (!(ones >> c.u & 1) && (ones >> c.w & 1)) sum = std::min(sum + c.cost, MinCut::kNever);
      return sum;
    };
    int64_t least = MinCut::kNever;
    int fewest = 32;
    for (uint32_t labels = 0; labels < 1u << nodes; ++labels) {
      const uint32_t ones = labels << 2 | 2;
      const int64_t p = price(ones);
      const int count = __builtin_popcount(ones);
      if (p < least || (p == least && count < fewest)) least = p, fewest = count;
    }
    if (least >= MinCut::kNever) continue;  // asked for what cannot be
    EXPECT_EQ(cut.Solve(), least);
    uint32_t ones = 2;
    for (int i = 2; i < nodes + 2; ++i) ones |= static_cast<uint32_t>(cut.IsOne(i)) << i;
    EXPECT_EQ(price(ones), least);
    EXPECT_EQ(__builtin_popcount(ones), fewest);
  }
}

// A way as long as the graph is deep: the stack holds no step of it.
TEST(MinCut, LongChains) {
  constexpr int kNodes = 100000, kWeak = 70000;
  MinCut cut;
  for (int i = 0, last = MinCut::kZero; i < kNodes; ++i) {
    const int node = cut.AddNode();
    cut.AddCost(last, node, i == kWeak ? 3 : 5);
    last = node;
    if (i == kNodes - 1) cut.AddCost(node, MinCut::kOne, MinCut::kNever);
  }
  EXPECT_EQ(cut.Solve(), 3);
  EXPECT_FALSE(cut.IsOne(2 + kWeak - 1));
  EXPECT_TRUE(cut.IsOne(2 + kWeak));
}

}  // namespace
}  // namespace opsnn::graph
