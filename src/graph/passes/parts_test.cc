// Parts in place: the same results with fewer bytes moved.
#include <gtest/gtest.h>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

// Sums of 48 products in another order, through a softmax whose arguments stay small.
const double kTolerance = 16 * 64 * testing::Epsilon(DType::kF32);

std::vector<int64_t> V(std::initializer_list<int64_t> v) { return v; }

// With the pass, without it, and with nothing fused; returns the first.
Outcome ExpectFewerBytes(GraphMaker& m) {
  const Outcome with = ExpectFusionKeepsResults(m, 16);
  const Outcome without = RunGraph(m, Mode(FusionMode::kForce, "parts_in_place"));
  EXPECT_EQ(with.outputs.size(), without.outputs.size());
  for (size_t i = 0; i < with.outputs.size(); ++i)
    EXPECT_EQ("", testing::Compare(with.outputs[i], without.outputs[i], kTolerance, kTolerance));
  EXPECT_LT(with.prepared->bytes_moved(), without.prepared->bytes_moved());
  EXPECT_LT(with.prepared->nodes_run(), without.prepared->nodes_run());
  return with;
}

// Heads of an attention, as exporters write them: from one product that is split, or from three.
ValueId Attention(GraphMaker& m, ValueId x, int64_t b, int64_t l, int64_t heads, int64_t d, bool split) {
  const int64_t width = heads * d;
  ValueId qkv[3];
  if (split) {
    const ValueId all =
        m.Op("Add", {m.Op("MatMul", {x, m.Random({width, 3 * width}, -0.1, 0.1)}), m.Random({3 * width})});
    qkv[0] = m.Op("Split", {all, m.Ints({width, width, width})}, {{"axis", int64_t{2}}}, 3);
    for (int i : {1, 2}) qkv[i] = qkv[0] + i;
  } else {
    for (ValueId& v : qkv)
      v = m.Op("Add", {m.Op("MatMul", {x, m.Random({width, width}, -0.1, 0.1)}), m.Random({width})});
  }
  for (ValueId& v : qkv) v = m.Op("Reshape", {v, m.Ints({b, l, heads, d})});
  const ValueId q = m.Op("Transpose", {qkv[0]}, {{"perm", V({0, 2, 1, 3})}}),
                k = m.Op("Transpose", {qkv[1]}, {{"perm", V({0, 2, 3, 1})}}),
                v = m.Op("Transpose", {qkv[2]}, {{"perm", V({0, 2, 1, 3})}});
  const ValueId scores = m.Op("Div", {m.Op("MatMul", {q, k}), m.Scalar(4)});
  const ValueId y = m.Op("MatMul", {m.Op("Softmax", {scores}), v});
  return m.Op("Reshape", {m.Op("Transpose", {y}, {{"perm", V({0, 2, 1, 3})}}), m.Ints({b, l, width})});
}

TEST(PartsInPlace, AttentionMovesNoHeads) {
  for (const bool split : {false, true}) {
    for (int64_t b : {1, 2}) {
      for (int64_t l : {1, 5, 33}) {
        GraphMaker m;
        const ValueId y = Attention(m, m.In("x", {b, l, 48}), b, l, 3, 16, split);
        m.Out(m.Op("MatMul", {y, m.Random({48, 20})}));
        if (b * l == 1) {  // transposes of one row are views anyway
          ExpectFusionKeepsResults(m, 16);
          continue;
        }
        const Outcome o = l == 1 ? ExpectFusionKeepsResults(m, 16) : ExpectFewerBytes(m);
        if (l == 1) continue;
        EXPECT_EQ(o.Effects("parts_in_place"), 2);  // separate projections were merged before
        for (const Step& s : o.prepared->steps()) {
          const std::string& op = o.prepared->graph().nodes[s.node].op->name;
          EXPECT_EQ(s.kernel == nullptr, s.variant() == "view");
          EXPECT_TRUE(s.kernel == nullptr || (op != "Transpose" && op != "Split")) << op;
        }
      }
    }
  }
}

TEST(PartsInPlace, CapturedValuesAreLogical) {
  GraphMaker m;
  m.Out(Attention(m, m.In("x", {2, 7, 24}), 2, 7, 3, 8, true));
  const Outcome with = RunGraph(m, Mode(FusionMode::kForce), true),
                without = RunGraph(m, Mode(FusionMode::kForce, "parts_in_place"), true);
  ASSERT_GT(with.Effects("parts_in_place"), 0);
  for (const auto& [name, values] : without.captured) {
    ASSERT_EQ(with.captured.count(name), 1u) << name;
    EXPECT_EQ("", testing::Compare(with.captured.at(name), values, kTolerance, kTolerance)) << name;
  }
}

TEST(PartsInPlace, SplitStaysWhereReadersNeedRows) {
  GraphMaker m;
  const ValueId x = m.Op("Abs", {m.In("x", {4, 6})});
  const ValueId a = m.Op("Split", {x, m.Ints({2, 4})}, {{"axis", int64_t{1}}}, 2);
  m.Out(m.Op("Softmax", {a}));
  m.Out(m.Op("MatMul", {a + 1, m.Random({4, 5})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m).Effects("parts_in_place"), 0);
}

TEST(PartsInPlace, AnOutputOfTheModelIsNoPart) {
  GraphMaker m;
  const ValueId x = m.Op("Abs", {m.In("x", {4, 6})});
  const ValueId a = m.Op("Split", {x, m.Ints({2, 2, 2})}, {{"axis", int64_t{1}}}, 3);
  for (int i : {0, 1, 2}) m.Out(m.Op("MatMul", {a + i, m.Random({2, 5})}));
  m.Out(a + 1);
  EXPECT_EQ(ExpectFusionKeepsResults(m).Effects("parts_in_place"), 0);
}

TEST(PartsInPlace, ConcatIsWrittenInPlace) {
  GraphMaker m;
  const ValueId x = m.In("x", {1, 6, 10});
  const ValueId a = m.Op("MatMul", {x, m.Random({10, 7})}),
                b = m.Op("Softmax", {m.Op("MatMul", {x, m.Random({10, 7})})});
  const ValueId c = m.Op("Concat", {a, b}, {{"axis", int64_t{1}}});
  m.Out(m.Op("Relu", {c}));
  EXPECT_EQ(ExpectFewerBytes(m).Effects("parts_in_place"), 1);
}

TEST(PartsInPlace, ConcatKeepsWhatOthersRead) {
  GraphMaker m;
  const ValueId x = m.In("x", {6, 10});
  const ValueId a = m.Op("Softmax", {x}), b = m.Op("Softmax", {m.Op("Exp", {a})});
  m.Out(m.Op("Relu", {m.Op("Concat", {a, b, x}, {{"axis", int64_t{0}}})}));  // a has two readers, x is fed
  m.Out(m.Op("Concat", {b, b}, {{"axis", int64_t{0}}}));
  EXPECT_EQ(ExpectFusionKeepsResults(m).Effects("parts_in_place"), 0);
}

TEST(PartsInPlace, ConcatMayBeAnOutput) {
  GraphMaker m;
  const ValueId x = m.In("x", {6, 10});
  m.Out(m.Op("Concat", {m.Op("Softmax", {x}), m.Op("MatMul", {x, m.Random({10, 10})})},
             {{"axis", int64_t{0}}}));
  EXPECT_EQ(ExpectFewerBytes(m).Effects("parts_in_place"), 1);
}

}  // namespace
}  // namespace opsnn::graph
