// Products that are merged side by side or chained in blocks of rows: what matches, and that bits stay.
#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

void ExpectSameBits(GraphMaker& m, FusionMode mode, const std::string& pass) {
  const Outcome with = RunGraph(m, Mode(mode)), without = RunGraph(m, Mode(mode, pass));
  EXPECT_EQ(with.outputs, without.outputs);
}

// ---- merged_products

// Queries, keys and values of `heads` heads from x, and the attention's two products.
ValueId Attention(GraphMaker& m, ValueId x, int64_t rows, int64_t width, int64_t heads, bool bias) {
  const auto project = [&](std::vector<int64_t> perm) {
    ValueId y = m.Op("MatMul", {x, m.Random({width, width})});
    if (bias) y = m.Op("Add", {m.Random({width}), y});
    y = m.Op("Reshape", {y, m.Ints({-1, rows, heads, width / heads})});
    return m.Op("Transpose", {y}, {{"perm", std::move(perm)}});
  };
  const ValueId q = project({0, 2, 1, 3}), k = project({0, 2, 3, 1}), v = project({0, 2, 1, 3});
  return m.Op("MatMul", {m.Op("Softmax", {m.Op("MatMul", {q, k})}), v});
}

TEST(MergedProducts, QueriesKeysAndValuesAreOneProduct) {
  for (bool bias : {false, true}) {
    for (int64_t rows : {1, 7, 40}) {
      GraphMaker m;
      m.Out(Attention(m, m.In("x", {2, rows, 24}), rows, 24, 3, bias));
      const Outcome o = ExpectFusionKeepsResults(m, 2000);
      EXPECT_EQ(o.Effects("merged_products"), 1);
      EXPECT_EQ(o.Count("MatMul"), 3);
      ExpectSameBits(m, FusionMode::kAuto, "merged_products");
    }
  }
}

TEST(MergedProducts, OnlyWherePartsAreReadInPlace) {
  GraphMaker m;
  const ValueId x = m.In("x", {6, 8});
  m.Out(m.Op("Relu", {m.Op("MatMul", {x, m.Random({8, 5})})}));
  m.Out(m.Op("Relu", {m.Op("MatMul", {x, m.Random({8, 9})})}));
  // One with a bias, one without; different depths cannot share x.
  const ValueId y = m.In("y", {4, 8});
  const ValueId a = m.Op("Add", {m.Op("MatMul", {y, m.Random({8, 8})}), m.Random({8})});
  const ValueId b = m.Op("MatMul", {y, m.Random({8, 8})});
  m.Out(m.Op("MatMul", {a, m.Op("Transpose", {b}, {{"perm", std::vector<int64_t>{1, 0}}})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 300).Effects("merged_products"), 0);
}

// ---- chained_products

ValueId FeedForward(GraphMaker& m, ValueId x, int64_t k, int64_t hidden, const char* act, bool residual) {
  ValueId h = m.Op("Add", {m.Op("MatMul", {x, m.Random({k, hidden})}), m.Random({hidden})});
  h = m.Op(act, {h});
  ValueId y = m.Op("Add", {m.Op("MatMul", {h, m.Random({hidden, k})}), m.Random({k})});
  return residual ? m.Op("Add", {y, x}) : y;
}

TEST(ChainedProducts, FeedForwardRunsInBlocksOfRows) {
  for (const char* act : {"Relu", "Gelu", "Sigmoid"}) {
    for (bool residual : {false, true}) {
      GraphMaker m;
      m.Out(FeedForward(m, m.In("x", {3, 37, 16}), 16, 40, act, residual));
      const Outcome o = ExpectFusionKeepsResults(m, 2000);
      EXPECT_EQ(o.Effects("chained_products"), 1);
      EXPECT_EQ(o.Count("FeedForward"), 1);
      EXPECT_EQ(o.Count("MatMul"), 0);
      ExpectSameBits(m, FusionMode::kForce, "chained_products");
      const auto& decisions = o.decisions;
      const bool said = std::any_of(decisions.begin(), decisions.end(), [](const plan::Decision& d) {
        return d.chain.find("+matmul") != std::string::npos && !d.regions.empty();
      });
      EXPECT_TRUE(said);
    }
  }
}

TEST(ChainedProducts, LeavesASecondProductThatAddsWhatItReads) {
  GraphMaker m;
  const ValueId h = m.Op("Relu", {m.Op("MatMul", {m.In("x", {111, 16}), m.Random({16, 40})})});
  m.Out(m.Op("Add", {m.Op("MatMul", {h, m.Random({40, 40})}), h}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 300).Effects("chained_products"), 0);
}

TEST(ChainedProducts, LeavesWhatOthersReadAndOtherChains) {
  GraphMaker m;
  const ValueId x = m.In("x", {50, 8});
  const ValueId h = m.Op("Relu", {m.Op("MatMul", {x, m.Random({8, 20})})});
  m.Out(h);  // asked for by itself
  m.Out(m.Op("MatMul", {h, m.Random({20, 4})}));
  // The chain between multiplies with a tensor as large as the product.
  const ValueId g = m.Op("Mul", {m.Op("MatMul", {x, m.Random({8, 20})}), m.In("gate", {50, 20})});
  m.Out(m.Op("MatMul", {g, m.Random({20, 4})}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 300).Effects("chained_products"), 0);
}

}  // namespace
}  // namespace opsnn::graph
