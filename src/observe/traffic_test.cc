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
    if (t.unit != "cube") continue;
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

}  // namespace
}  // namespace opsnn::observe
