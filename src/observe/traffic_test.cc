#include "observe/traffic.h"

#include "graph/graph_tester.h"

namespace opsnn::observe {
namespace {

using graph::GraphMaker;
using graph::ValueId;

struct Moved {
  double traffic = 0;  // by the counters, in all levels
  int64_t bytes = 0;   // by the steps
  int convolutions = 0;
};

// Of all convolutions of the planned model; conversions of layouts around them are not theirs.
Moved MovedByConvolutions(GraphMaker& m, const std::string& passes_off) {
  const graph::Outcome o = graph::RunGraph(m, graph::Mode(FusionMode::kForce, passes_off));
  Moved moved;
  for (const NodeTraffic& t : TrafficOf(*o.prepared, device::HostProfile())) {
    if (t.op != "Conv" && t.op != "DepthwisePointwise") continue;
    moved.traffic += t.hbm_bytes + t.l2_bytes + t.l1_bytes;
    ++moved.convolutions;
  }
  for (const graph::Step& s : o.prepared->steps())
    if (o.prepared->graph().nodes[s.node].op->op_class == op::OpClass::kMatrix) moved.bytes += s.bytes_moved;
  return moved;
}

// The input is read once, the result is written once, and what lies between is neither.
TEST(Traffic, NothingLiesBetweenAPairOfConvolutions) {
  constexpr int64_t kN = 2, kC = 32, kOut = 16, kSize = 28;  // whole blocks of channels: no padding lanes
  GraphMaker m;
  const ValueId x = m.In("x", {kN, kC, kSize, kSize});
  const ValueId between = m.Op("Conv", {x, m.Random({kC, 1, 3, 3}), m.Random({kC})},
                               {{"pads", std::vector<int64_t>{1, 1, 1, 1}}, {"group", kC}});
  m.Out(m.Op("Conv", {m.Op("Relu", {between}), m.Random({kOut, kC, 1, 1}), m.Random({kOut})}));
  constexpr int64_t kFloat = sizeof(float), kPixels = kN * kSize * kSize;
  constexpr int64_t kWeights = kFloat * (kC * 9 + kC + kOut * kC + kOut);
  constexpr int64_t kEnds = kFloat * kPixels * (kC + kOut), kBetween = kFloat * kPixels * kC;

  const Moved pair = MovedByConvolutions(m, ""), apart = MovedByConvolutions(m, "depthwise_pairs");
  EXPECT_EQ(pair.convolutions, 1);
  EXPECT_EQ(apart.convolutions, 2);
  EXPECT_EQ(pair.traffic, kEnds + kWeights);
  EXPECT_EQ(pair.bytes, kEnds + kWeights);
  EXPECT_EQ(apart.traffic, kEnds + kWeights + 2 * kBetween);
  EXPECT_EQ(apart.bytes, kEnds + kWeights + 2 * kBetween);
}

// In blocks of rows what lies between two products stays in the cores' own caches: memory holds input, output
// and weights alone.
TEST(Traffic, WhatLiesBetweenTwoProductsIsKeptPerBlock) {
  constexpr int64_t kRows = 65536, kDepth = 32, kHidden = 128;
  GraphMaker m;
  const ValueId h =
      m.Op("Relu", {m.Op("Add", {m.Op("MatMul", {m.In("x", {kRows, kDepth}), m.Random({kDepth, kHidden})}),
                                 m.Random({kHidden})})});
  m.Out(m.Op("MatMul", {h, m.Random({kHidden, kDepth})}));
  const double ends = 4.0 * kRows * kDepth * 2, between = 4.0 * kRows * kHidden;
  double hbm[2] = {}, near[2] = {};
  int products[2] = {};
  const auto host = device::FindProfile("host:l2_bytes=2M");
  ASSERT_TRUE(host.ok());
  for (const bool blocks : {false, true}) {
    const graph::Outcome o = graph::RunGraph(
        m, blocks ? graph::Mode(FusionMode::kForce) : graph::Mode(FusionMode::kForce, "chained_products"));
    for (const NodeTraffic& t : TrafficOf(*o.prepared, *host)) {
      products[blocks] += t.unit == std::string("cube");
      hbm[blocks] += t.hbm_bytes;
      near[blocks] += t.l1_bytes;
    }
  }
  EXPECT_EQ(products[false], 2);
  EXPECT_EQ(products[true], 1);
  EXPECT_NEAR(hbm[true], ends, 1 << 16);
  EXPECT_NEAR(hbm[false] - hbm[true], 2 * between, 1 << 16);
  EXPECT_GE(near[true], 2 * between);
}

std::vector<NodeTraffic> Of(GraphMaker& m, FusionMode fusion, const char* profile) {
  const graph::Outcome o = graph::RunGraph(m, graph::Mode(fusion));
  const auto p = device::FindProfile(profile);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return p.ok() ? TrafficOf(*o.prepared, *p) : std::vector<NodeTraffic>();
}

TEST(Traffic, DepthwiseConvolutionsAreForTheVectorUnit) {
  GraphMaker m;
  const ValueId x = m.In("x", {1, 16, 12, 12});
  m.Out(m.Op("Conv", {x, m.Random({16, 1, 3, 3})}, {{"group", int64_t{16}}}));
  for (const NodeTraffic& t : Of(m, FusionMode::kAuto, "910B1")) {
    EXPECT_NE(t.unit, "cube") << t.node;
    EXPECT_EQ(t.loaded_bytes, 0) << t.node;
    if (t.op == "Conv") {
      EXPECT_EQ(t.ub_bytes, t.hbm_bytes + t.l2_bytes);
    }
  }
}

// An intermediate lives where the judge has it: beside what its reader writes. Where the units share L2 alone
// a fused block goes through it, and memory is spared.
TEST(Traffic, FusingSparesMemoryOnEveryProfile) {
  constexpr int64_t kRows = 1024, kDepth = 32;
  GraphMaker m;
  m.Out(m.Op("Relu", {m.Op("MatMul", {m.In("a", {kRows, kDepth}), m.Random({kDepth, kRows})})}));
  for (const char* profile : {"910B1:l2_bytes=12M", "950PR:l2_bytes=12M"}) {
    double hbm[2] = {};
    for (const bool fused : {false, true})
      for (const NodeTraffic& t : Of(m, fused ? FusionMode::kForce : FusionMode::kOff, profile))
        hbm[fused] += t.hbm_bytes;
    const double result = 4.0 * kRows * kRows;  // 4 MiB: half of L2 holds it, but not beside another
    EXPECT_EQ(hbm[0], 3 * result) << profile;
    EXPECT_EQ(hbm[1], 0) << profile;
  }
}

}  // namespace
}  // namespace opsnn::observe
