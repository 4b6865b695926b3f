#include "graph/fusion/moves.h"

#include <gtest/gtest.h>

#include "graph/graph_tester.h"

namespace opsnn::graph {
namespace {

using Ints = std::vector<int64_t>;

std::vector<plan::Decision> WithChain(const Outcome& o, const std::string& chain) {
  std::vector<plan::Decision> found;
  for (const plan::Decision& d : o.decisions) {
    if (d.chain == chain) found.push_back(d);
  }
  return found;
}

TEST(Moves, TransposesThatAProductReadsThroughAreFused) {
  GraphMaker m;
  const ValueId a = m.Op("Transpose", {m.In("a", {48, 32})}, {{"perm", Ints{1, 0}}});
  const ValueId b = m.Op("Transpose", {m.In("b", {64, 48})}, {{"perm", Ints{1, 0}}});
  m.Out(m.Op("MatMul", {a, b}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  ASSERT_EQ(o.Count("Transpose"), 0);
  const auto edges = WithChain(o, "transpose+MatMul");
  ASSERT_EQ(edges.size(), 2u);
  for (const plan::Decision& d : edges) EXPECT_EQ(d.verdict, plan::Verdict::kFuse) << d.reason;
  EXPECT_EQ(edges[0].where, "Transpose0");
  EXPECT_EQ(edges[0].shape, "48x32");
  EXPECT_EQ(edges[1].where, "Transpose1");
  EXPECT_EQ(edges[1].shape, "64x48");
}

TEST(Moves, AnOperandThatLiesAsItIsHasNoEdge) {
  GraphMaker m;
  const ValueId b = m.Op("Transpose", {m.In("b", {64, 48})}, {{"perm", Ints{1, 0}}});
  m.Out(m.Op("MatMul", {m.In("a", {32, 48}), b}));
  const auto edges = WithChain(RunGraph(m, Mode(FusionMode::kAuto)), "transpose+MatMul");
  ASSERT_EQ(edges.size(), 1u);
  EXPECT_EQ(edges[0].shape, "64x48");
}

TEST(Moves, TransposesAndCastsThatRunAloneSayWhatTheJudgeWouldDo) {
  GraphMaker m;
  m.Out(m.Op("Transpose", {m.In("x", {300, 200})}, {{"perm", Ints{1, 0}}}));
  m.Out(m.Op("Cast", {m.In("y", {300, 200})}, {{"to", int64_t{10}}}));
  const Outcome o = RunGraph(m, Mode(FusionMode::kAuto));
  for (const char* chain : {"transpose", "cast f32 to f16"}) {
    const auto alone = WithChain(o, chain);
    ASSERT_EQ(alone.size(), 1u) << chain;
    EXPECT_EQ(alone[0].verdict, plan::Verdict::kRefuse);
    EXPECT_NE(alone[0].reason.find("the judge would"), std::string::npos) << alone[0].reason;
    EXPECT_GT(alone[0].time_split_us, 0);
  }
}

TEST(Moves, TransposesThatConversionsTakeOverAreFused) {
  GraphMaker m;
  const ValueId nchw = m.Op("Transpose", {m.In("x", {1, 12, 12, 24})}, {{"perm", Ints{0, 3, 1, 2}}});
  const ValueId y = m.Op("Conv", {nchw, m.Random({32, 24, 5, 5})}, {{"pads", Ints(4, 2)}});
  m.Out(m.Op("Transpose", {y}, {{"perm", Ints{0, 2, 3, 1}}}));
  const auto edges = WithChain(RunGraph(m, Mode(FusionMode::kAuto)), "transpose");
  ASSERT_EQ(edges.size(), 2u);
  for (const plan::Decision& d : edges) EXPECT_EQ(d.verdict, plan::Verdict::kFuse) << d.reason;
}

// The verdict says what is done, so it does not follow the knob: there is one way to draw a mask.
TEST(Moves, MasksAreAppliedWhereTheyAreDrawn) {
  for (const FusionMode mode : {FusionMode::kAuto, FusionMode::kOff}) {
    GraphMaker m;
    m.Out(m.Op("DropoutTraining", {m.In("x", {64, 128})}));
    const auto edges = WithChain(RunGraph(m, Mode(mode)), "random+mask+scale");
    ASSERT_EQ(edges.size(), 1u);
    EXPECT_EQ(edges[0].verdict, plan::Verdict::kFuse) << edges[0].reason;
    EXPECT_EQ(edges[0].shape, "64x128");
  }
}

}  // namespace
}  // namespace opsnn::graph
