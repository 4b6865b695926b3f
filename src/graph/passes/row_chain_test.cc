// Pointwise chains joined with the row operator behind them.
#include <gtest/gtest.h>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

void ExpectOneProgram(GraphMaker& m) {
  const Outcome fused = ExpectFusionKeepsResults(m);
  EXPECT_EQ(fused.Effects("row_chain"), 1);
  const Outcome off = RunGraph(m, Mode(FusionMode::kForce, "row_chain"));
  EXPECT_EQ(off.Effects("row_chain"), 0);
  EXPECT_LT(fused.prepared->bytes_moved(), off.prepared->bytes_moved());
  EXPECT_LT(fused.prepared->nodes_run(), off.prepared->nodes_run());
}

TEST(RowChain, ScaleMaskSoftmax) {
  GraphMaker m;
  const ValueId x = m.Op("Div", {m.In("x", {2, 3, 5, 7}), m.Scalar(8)});
  m.Out(m.Op("Softmax", {m.Op("Add", {x, m.Random({2, 1, 1, 7})})}));
  ExpectOneProgram(m);
}

TEST(RowChain, ResidualAndNorm) {
  for (const char* norm : {"LayerNormalization", "RMSNormalization"}) {
    GraphMaker m;
    const ValueId x = m.Op("Add", {m.In("x", {4, 3, 33}), m.In("r", {4, 3, 33})});
    m.Out(m.Op(norm, {x, m.Random({33})}, {{"epsilon", 1e-3}}));
    ExpectOneProgram(m);
  }
}

TEST(RowChain, EmbeddingAddNormOverTwoAxes) {
  GraphMaker m;
  const ValueId e = m.Op("Gather", {m.Random({11, 5, 4}), m.Ints({3, 0, 7})});
  const ValueId x = m.Op("Add", {e, m.In("p", {3, 5, 4})});
  m.Out(m.Op("LayerNormalization", {x, m.Random({5, 4}), m.Random({5, 4})}, {{"axis", int64_t{1}}}));
  ExpectOneProgram(m);
}

TEST(RowChain, RowsBehindAProductRunInItsBlocks) {
  for (const char* row : {"Softmax", "LayerNormalization", "RMSNormalization"}) {
    for (bool residual : {false, true}) {
      GraphMaker m;
      const ValueId x = m.In("x", {3, 30, 20});
      ValueId y = m.Op("Add", {m.Op("MatMul", {x, m.Random({20, 33})}), m.Random({33})});
      if (residual) y = m.Op("Add", {y, m.In("r", {3, 30, 33})});
      m.Out(std::string(row) == "Softmax" ? m.Op(row, {y}) : m.Op(row, {y, m.Random({33})}));
      const Outcome o = ExpectFusionKeepsResults(m, 20);
      EXPECT_EQ(o.Effects("row_chain"), 1) << row;
      EXPECT_EQ(o.prepared->nodes_run(), 1);
      EXPECT_EQ(o.outputs, RunGraph(m, Mode(FusionMode::kForce, "row_chain")).outputs) << row;
      EXPECT_EQ(o.decisions.back().verdict, plan::Verdict::kHybrid);
      for (const plan::Decision& d : o.decisions) EXPECT_NE(d.verdict, plan::Verdict::kRefuse) << d.reason;
    }
  }
}

TEST(RowChain, RowsBehindAProductThatIsNotOneMatrixStayApart) {
  for (const Dims& position : {Dims{30, 33}, Dims{3, 1, 33}}) {  // one for all sequences, one for a sequence
    GraphMaker m;
    const ValueId y = m.Op("MatMul", {m.In("x", {3, 30, 20}), m.Random({20, 33})});
    m.Out(m.Op("Softmax", {m.Op("Add", {y, m.Random(position)})}));
    ExpectFusionKeepsResults(m, 20);
  }
}

TEST(RowChain, RowsBehindAProductAndTransposes) {
  const op::AttrValue swap = std::vector<int64_t>{1, 0, 2};
  for (const bool before : {false, true}) {
    GraphMaker m;
    ValueId x = m.In("x", {6, 12, 20});
    if (before) x = m.Op("Transpose", {x}, {{"perm", swap}});
    const ValueId y = m.Op("Softmax", {m.Op("MatMul", {x, m.Random({20, 33})})});
    m.Out(before ? y : m.Op("Transpose", {y}, {{"perm", swap}}));
    ExpectFusionKeepsResults(m, 20);
  }
}

TEST(RowChain, RowsOfSeveralProductsStayApart) {
  GraphMaker m;
  m.Out(m.Op("Softmax", {m.Op("MatMul", {m.In("a", {3, 7, 20}), m.In("b", {3, 20, 33})})}));
  const ValueId few = m.Op("MatMul", {m.In("x", {40, 20}), m.Random({20, 5})});
  m.Out(m.Op("Softmax", {few}));
  EXPECT_EQ(ExpectFusionKeepsResults(m, 20).Effects("row_chain"), 0);
}

// Blocked images have no rows along W: the row program reads logical order, also between convolutions.
TEST(RowChain, RowsOfImagesStayInLogicalOrder) {
  for (const char* row : {"Softmax", "LayerNormalization"}) {
    for (const char* step : {"Mul", "Sub", "Add"}) {
      for (const bool conv_behind : {false, true}) {
        GraphMaker m;
        const ValueId x = m.Op("Conv", {m.In("x", {2, 7, 6, 9}), m.Random({20, 7, 3, 3})});
        const ValueId scale = m.Op("GlobalAveragePool", {x});
        ValueId y = m.Op(step, {x, scale});
        y = std::string(row) == "Softmax" ? m.Op(row, {y}) : m.Op(row, {y, m.Random({7})});
        m.Out(conv_behind ? m.Op("Conv", {y, m.Random({5, 20, 1, 1})}) : y);
        EXPECT_EQ(ExpectFusionKeepsResults(m, 20).Effects("row_chain"), 1) << row << " " << step;
      }
    }
  }
}

TEST(RowChain, ASecondReaderOrAnotherAxisKeepsThemApart) {
  GraphMaker m;
  const ValueId x = m.Op("Abs", {m.In("x", {4, 6})});
  m.Out(m.Op("Softmax", {x}));
  m.Out(m.Op("Softmax", {m.Op("Neg", {x})}, {{"axis", int64_t{0}}}));
  EXPECT_EQ(ExpectFusionKeepsResults(m).Effects("row_chain"), 0);
}

TEST(RowChain, SmallOnesStayApartUnlessForced) {
  GraphMaker m;
  m.Out(m.Op("Softmax", {m.Op("Abs", {m.In("x", {4, 6})})}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  EXPECT_EQ(o.Effects("row_chain"), 0);
  ASSERT_FALSE(o.decisions.empty());
  EXPECT_NE(o.decisions.back().reason.find("stays in a cache"), std::string::npos);
}

}  // namespace
}  // namespace opsnn::graph
